package rule

import (
	"fmt"
	"net/netip"
	"slices"

	"weir/internal/address"
	"weir/pkg/request"
)

// LeastTraffic is how many requests the last hour must have had for a share of them to guard a group rule: a share of a few
// requests says nothing.
const LeastTraffic = 1000

// GuardsTraffic reports whether the guard of a group rule keeps networks from being blocked that sent too large a share of
// the requests.
func (r *Rule) GuardsTraffic() bool { return r.CountsBlocks() && r.Guard.MostShare > 0 }

// GuardText is the guard of the rule in words, empty when it is off.
func (r *Rule) GuardText() string {
	if !r.GuardsTraffic() {
		return r.Guard.String()
	}
	text := "networks with up to " + r.Guard.ShareText() + " of the requests of an hour"
	if r.Guard.MostNew > 0 {
		text = Guard{MostNew: r.Guard.MostNew}.String() + ", " + text
	}
	return text
}

// Traffic is the index of the rule whose hits are the requests that group rules are guarded by: the first that counts all
// requests by their address. It is -1 if no group rule has such a guard.
func (s *Set) Traffic() int {
	traffic, guards := -1, false
	for i, r := range s.Rules {
		guards = guards || r.GuardsTraffic()
		if traffic < 0 && r.countsAll() {
			traffic = i
		}
	}
	if !guards {
		return -1
	}
	return traffic
}

// countsAll reports whether each request of an address is one hit of the rule.
func (r *Rule) countsAll() bool {
	if !r.CountsLog() || r.CountsBlocks() || r.HasValues() || r.match != nil || r.cost != nil || r.Count != All || len(r.Key.parts) != 1 {
		return false
	}
	p := r.Key.parts[0]
	return p.name == "ip" && p.bits4 == defaultBits4 && p.bits6 >= defaultBits6
}

// Networks are the networks of a key of the rule Set.Traffic, one for each group rule that is guarded by traffic, in the order
// of rules. Their Key is nil where the rule has no network for the address. They are valid until the next call.
func (j *Judge) Networks(key string, at int64) []GroupHit {
	j.groups, j.keys = j.groups[:0], j.keys[:0]
	prefix, err := address.Parse(key)
	j.networkOf = request.Request{UnixMilli: at, IP: prefix.Addr()}
	j.subject.about(&j.networkOf)
	for i, rule := range j.set.Rules {
		if !rule.GuardsTraffic() {
			continue
		}
		hit := GroupHit{Rule: i}
		if err == nil {
			hit.Key = j.networkKey(rule, prefix.Addr())
		}
		j.groups = append(j.groups, hit)
	}
	return j.groups
}

// networkKey is the key of the network of an address of the subject; nil if there is none.
func (j *Judge) networkKey(r *Rule, ip netip.Addr) []byte {
	if !ip.IsValid() || r.bySystem() && j.subject.asn() == 0 {
		return nil
	}
	start := len(j.keys)
	keys, ok := r.Key.append(j.keys, &j.subject)
	if !ok {
		return nil
	}
	j.keys = keys
	return keys[start:len(keys):len(keys)]
}

// mostTrafficGuards bounds the group rules that are guarded by traffic: each takes memory of each partition, and time with
// each request.
const mostTrafficGuards = 16

// checkTraffic finds group rules that are guarded by traffic, where no rule counts it, and those that are too many.
func (l *loader) checkTraffic() {
	counted := slices.ContainsFunc(l.rules, (*Rule).countsAll)
	guarded := 0
	for _, r := range l.rules {
		if !r.GuardsTraffic() {
			continue
		}
		fault := r.place
		if guarded++; guarded > mostTrafficGuards {
			fault.What = fmt.Sprintf("the guard of %s is one too many: at most %d rules with on: blocked have most_share", r.Name, mostTrafficGuards)
			fault.Remedy = "write most_new instead"
			l.faults = append(l.faults, fault)
		}
		if !counted {
			fault.What = "the guard of " + r.Name + " needs the share of all requests, and no rule counts these"
			fault.Remedy = "write a rule by ip without match, count and cost, such as {name: traffic, key: ip, limits: [100000/hour], mode: shadow}"
			l.faults = append(l.faults, fault)
		}
	}
}
