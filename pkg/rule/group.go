package rule

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"weir/internal/address"
	"weir/pkg/geoip"
	"weir/pkg/request"
	"weir/pkg/window"
)

// Rules with on: blocked count the blocks that other rules have begun, and no requests: how many addresses of a network
// were blocked, where a network is a prefix or an autonomous system. They are called group rules. An aggregator finds the
// hits of group rules when it decides about a block, and sends them to where the network is counted. A block of a group rule
// is no hit of any.

// groupLate is how late the block of an address may be found and still count, by the times of the blocks: partitions that
// read a backlog may be far apart.
const groupLate = 24 * time.Hour

// The widest networks that a group rule may block.
const (
	widest4 = 16
	widest6 = 32
)

// CountsBlocks reports whether any rule is a group rule.
func (s *Set) CountsBlocks() bool { return slices.ContainsFunc(s.Rules, (*Rule).CountsBlocks) }

// CountsBlocks reports whether the rule is a group rule: it counts blocks of other rules, and no requests.
func (r *Rule) CountsBlocks() bool { return r.onBlocked }

// AggregatorsCount reports whether aggregators count the rule: requests of logs, refused attempts or blocks.
func (r *Rule) AggregatorsCount() bool {
	return r.CountsLog() || r.CountsRefusals() || r.CountsBlocks()
}

// A BlockOf is a block that another rule has begun, as group rules see it.
type BlockOf struct {
	Rule   *Rule
	Key    string // that is blocked
	ID     string // of its entry
	From   int64  // Unix ms
	Shadow bool   // it refuses no one
}

// A GroupHit is the block of an address as a group rule counts it.
type GroupHit struct {
	Rule      int    // index in Set.Rules
	Key       []byte // of the network, canonical
	Value, ID uint64 // of the address and its block, as window.MemberBlock has them
}

// Blocks are the hits of a block, one a group rule at most, but for rules above others (Above). They are valid until the next call.
//
// A block counts if its key has an address: an IPv4 address, or a network of IPv6 of at most 64 bits. One in shadow mode
// counts only for rules in shadow mode. A network with an allowed address is left alone.
func (j *Judge) Blocks(b *BlockOf) []GroupHit {
	j.groups, j.keys = j.groups[:0], j.keys[:0]
	if b.Rule.CountsBlocks() {
		return nil
	}
	prefix, err := address.Parse(b.Rule.Key.Fields(b.Key)["ip"])
	value, ok := addressNumber(prefix)
	if err != nil || !ok {
		return nil
	}

	r := request.Request{UnixMilli: b.From, IP: prefix.Addr(), Take: &request.Take{Rule: b.Rule.Name, Key: b.Key}}
	j.subject.about(&r)
	for i, rule := range j.set.Rules {
		if !rule.CountsBlocks() || rule.Above != "" || b.Shadow && rule.Mode != Shadow {
			continue
		}
		if matches, ok := rule.matches(&j.subject); !matches || !ok {
			continue
		}
		if key, reason := j.network(rule, prefix.Addr()); reason == Counted {
			j.groups = append(j.groups, GroupHit{i, key, value, blockNumber(b.ID)})
		}
	}
	return j.groups
}

// Above are the hits of the group rules above another one, of what a network of that passes on (window.State.Passed). They
// are valid until the next call of Blocks or Above.
func (j *Judge) Above(below *Rule, passed window.MemberBlock) []GroupHit {
	j.groups, j.keys = j.groups[:0], j.keys[:0]
	r := request.Request{UnixMilli: passed.At, IP: memberAddress(passed.Value)}
	j.subject.about(&r)
	for i, rule := range j.set.Rules {
		if !rule.CountsBlocks() || rule.Above != below.Name {
			continue
		}
		if matches, ok := rule.matches(&j.subject); !matches || !ok {
			continue
		}
		if key, reason := j.network(rule, r.IP); reason == Counted {
			j.groups = append(j.groups, GroupHit{i, key, passed.Value, passed.ID})
		}
	}
	return j.groups
}

// network is the key of the network that a group rule may block for an address of the subject.
func (j *Judge) network(r *Rule, ip netip.Addr) (key []byte, reason Reason) {
	before := len(j.keys)
	if key = j.networkKey(r, ip); key == nil {
		return nil, NoKey // no database knows it, whatever a log says
	}
	if j.set.allowsInNetwork(r, ip, &j.subject) {
		j.keys = j.keys[:before]
		return nil, Allowed
	}
	return key, Counted
}

// networks adds the hits of a request in the networks that group rules may block. They do not count: a backtest shows by them
// which requests a block of a network would have refused. Their value is the address.
func (j *Judge) networks() {
	if !j.watches {
		return
	}
	for i, rule := range j.set.Rules {
		if !rule.CountsBlocks() {
			continue
		}
		if !j.subject.IP.IsValid() {
			j.note(i, NoKey)
			continue
		}
		ip := j.subject.plainIP()
		key, reason := j.network(rule, ip)
		if reason == Counted {
			value, _ := addressNumber(netip.PrefixFrom(ip, min(ip.BitLen(), memberBits6)))
			j.hits = append(j.hits, Hit{Rule: i, Key: key, Cost: 1, Value: value})
		}
		j.note(i, reason)
	}
}

// WatchNetworks has Hits find the requests of networks that group rules may block, too.
func (j *Judge) WatchNetworks() { j.watches = j.set.CountsBlocks() }

func (r *Rule) matches(s *subject) (matches, ok bool) {
	if r.match == nil {
		return true, true
	}
	return r.match.matches(s)
}

func (p *part) bitsOf(ip netip.Addr) int {
	if ip.Is4() {
		return p.bits4
	}
	return p.bits6
}

// memberBits6 is the length of an IPv6 network that counts as one address.
const memberBits6 = 64

// addressNumber is an address as a number: an IPv4 address is below 2^32, and an IPv6 network is its first 64 bits. ok is false
// for wider networks, and for IPv6 networks whose number could be an IPv4 address, which no one has.
func addressNumber(p netip.Prefix) (value uint64, ok bool) {
	ip := address.Plain(p.Addr())
	if ip.Is4() {
		four := ip.As4()
		return uint64(binary.BigEndian.Uint32(four[:])), p.Bits() == ip.BitLen() || p.Bits() == 128
	}
	sixteen := ip.As16()
	value = binary.BigEndian.Uint64(sixteen[:])
	return value, ip.Is6() && p.Bits() >= memberBits6 && value > 1<<32
}

// subscriberBits6 is the length of the IPv6 network that one subscriber may have. In wider networks it counts as one address:
// else one subscriber could get a provider blocked.
const subscriberBits6 = 48

// MemberShift is how many of the last bits of an IPv6 member's number do not count (window.Config.Shift).
func (r *Rule) MemberShift() uint {
	if r.CountsBlocks() && (r.bySystem() || r.Key.parts[0].bits6 < subscriberBits6) {
		return memberBits6 - subscriberBits6
	}
	return 0
}

// MemberText is the address of a number in hits of group rules, as keys have it.
func MemberText(value uint64) string {
	ip := memberAddress(value)
	if ip.Is4() {
		return ip.String()
	}
	return netip.PrefixFrom(ip, memberBits6).String()
}

// memberAddress is the address of a number; of an IPv6 network the first.
func memberAddress(value uint64) netip.Addr {
	if value < 1<<32 {
		var four [4]byte
		binary.BigEndian.PutUint32(four[:], uint32(value))
		return netip.AddrFrom4(four)
	}
	var sixteen [16]byte
	binary.BigEndian.PutUint64(sixteen[:], value)
	return netip.AddrFrom16(sixteen)
}

// blockNumber is the id of an entry as a number below window.MemberEnd.
func blockNumber(id string) uint64 {
	b, _ := hex.DecodeString(id[:min(16, len(id)&^1)])
	var eight [8]byte
	copy(eight[:], b)
	return min(binary.BigEndian.Uint64(eight[:])>>3, window.MemberEnd-2) // it travels in a signed number, with two bits more
}

// allowsInNetwork reports whether an address of the network of an address is allowed for a group rule at the subject's time,
// whatever else the entry asks for.
func (s *Set) allowsInNetwork(r *Rule, ip netip.Addr, of *subject) bool {
	system := uint32(0)
	var network netip.Prefix
	if r.bySystem() {
		system = of.located().Number()
	} else {
		network, _ = ip.Prefix(r.Key.parts[0].bitsOf(ip))
	}
	for i, a := range s.Allows {
		if !a.Until.IsZero() && of.UnixMilli >= a.until || len(a.Rules) > 0 && !slices.Contains(a.Rules, r.Name) {
			continue
		}
		if system != 0 && s.allowedSystems[i][system] || system == 0 && (a.networks.OverlapsPrefix(network) || a.named.OverlapsPrefix(network)) {
			return true
		}
	}
	return false
}

// bySystem reports whether the networks of a group rule are autonomous systems.
func (r *Rule) bySystem() bool { return r.Key.parts[0].name == geoip.ASN.String() }

// systemsAllowed are the autonomous systems that have an address of each allow entry, if a group rule counts by them.
func (s *Set) systemsAllowed() (all []map[uint32]bool) {
	if !slices.ContainsFunc(s.Rules, func(r *Rule) bool { return r.CountsBlocks() && r.bySystem() }) {
		return nil
	}
	for _, a := range s.Allows {
		systems := map[uint32]bool{}
		for _, prefix := range slices.Concat(a.Prefixes, a.match.networks()) {
			s.places.NumbersIn(prefix, func(number uint32) { systems[number] = true })
		}
		all = append(all, systems)
	}
	return all
}

// PassesOn reports whether rules are above a group rule.
func (r *Rule) PassesOn() bool { return r.passes }

// groupText is a limit of blocked addresses in words: 5 blocked addresses within 10 minutes.
func groupText(l Limit) string {
	addresses := "addresses"
	if l.Hits == 1 {
		addresses = "address"
	}
	return strconv.FormatInt(l.Hits, 10) + " blocked " + addresses + " within " + spanText(l.Per)
}

// countedBlocks is how aggregators count a group rule.
func (r *Rule) countedBlocks() *Rule {
	counted := *r
	counted.counted = true
	return &counted
}

// Late is how late hits of the rule may come, where those of others may by so much.
func (r *Rule) Late(others time.Duration) time.Duration {
	if r.CountsBlocks() {
		return max(others, groupLate)
	}
	if r.Lateness != nil && r.EstimatesValues() {
		return min(others, *r.Lateness)
	}
	return r.Share.late(others)
}

// OwnLate is how late requests may be and count by the rule itself; 0 or less if it says nothing.
func (r *Rule) OwnLate() time.Duration {
	switch {
	case r.CountsShare():
		return r.Share.Late
	case r.Lateness != nil && r.EstimatesValues():
		return *r.Lateness
	}
	return 0
}
