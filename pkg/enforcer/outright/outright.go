// Package outright says who is refused whatever they ask for: what a list can carry that is read by something which
// sees no requests, such as a firewall, a map in a proxy's memory, or a bouncer of CrowdSec.
//
// All gives the entries in force of which that is true: enforced ones, of one field only (the address, the user, …), of
// rules that cover everything; blocks by hand always do. Entries of a rule that is paused are left out, or that is in shadow
// mode here, or not known: nobody can say what it covers.
//
// Allow beats block: allowed prefixes, of orders and of the rules' plain lists, are taken out of blocked ones, and what is
// left of a prefix is as few prefixes as there can be, which do not overlap. A user that is allowed is left out under
// the user. That a request of an allowed user comes from a blocked address nobody can see here: it stays blocked.
//
// The same holds of addresses as of a check: who is given here is refused there, and who is allowed there for the address
// is not given here. Nothing is kept between calls, nothing is started; a call is as long as the list, and each hole
// in a prefix costs at most 127 prefixes.
package outright

import (
	"iter"
	"net/netip"
	"strings"

	"weir/internal/address"
	"weir/pkg/blocklist"
	"weir/pkg/rule"
)

// A List is a blocklist in memory.
type List interface {
	// All are the entries in force at a time in Unix ms, those of blocks by hand too.
	All(nowMilli int64) iter.Seq[*blocklist.Entry]
	// Orders are the orders in force at that time.
	Orders(nowMilli int64) iter.Seq[*blocklist.Order]
	// Edits is another number once there are other entries or orders, but for ends that come by the clock.
	Edits() uint64
	// Whole says whether all of the list is there.
	Whole() bool
}

// While is the list as long as it is enforced, and one of nobody otherwise: in shadow mode.
func While(enforced func() bool, list List) List { return conditional{list, enforced} }

type conditional struct {
	List
	enforced func() bool
}

// All are the list's entries, while it is enforced.
func (c conditional) All(nowMilli int64) iter.Seq[*blocklist.Entry] {
	if !c.enforced() {
		return func(func(*blocklist.Entry) bool) {}
	}
	return c.List.All(nowMilli)
}

// Edits are the list's, and others while it is not enforced.
func (c conditional) Edits() uint64 {
	edits := c.List.Edits() << 1
	if c.enforced() {
		edits++
	}
	return edits
}

// IP is the scope of addresses and prefixes. Others are the names of fields: user, host, …
const IP = "ip"

// Someone is refused outright.
type Someone struct {
	Scope  string
	Prefix netip.Prefix // for IP
	Value  string       // for other scopes, as requests have it
	Entry  *blocklist.Entry
}

// manual is the rule of blocks by hand.
const manual = "manual"

// All gives everyone who is refused outright, an entry after the other. The rules may be nil.
func All(list List, rules *rule.Set, nowMilli int64) iter.Seq[Someone] {
	return func(yield func(Someone) bool) {
		o := overall{exceptions: exceptionsOf(list, rules, nowMilli)}
		for entry := range list.All(nowMilli) {
			if !o.each(entry, yield) {
				return
			}
		}
	}
}

// An overall is what one call needs.
type overall struct {
	exceptions *exceptions
	rest       []netip.Prefix // of one entry
}

// each gives those whom an entry refuses outright; false when no more are wanted.
func (o *overall) each(entry *blocklist.Entry, yield func(Someone) bool) bool {
	if entry.Mode != blocklist.Enforce || len(entry.Fields) != 1 || !o.exceptions.carries(entry.Rule) {
		return true
	}
	for scope, value := range entry.Fields {
		if scope == IP {
			return o.addresses(entry, value, yield)
		}
		if isCut(entry.Key) || o.exceptions.allows(entry.Rule, scope, value) {
			return true
		}
		return yield(Someone{Scope: scope, Value: value, Entry: entry})
	}

	return true
}

func (o *overall) addresses(entry *blocklist.Entry, value string, yield func(Someone) bool) bool {
	prefix := Parse(value)
	if !prefix.IsValid() {
		return true
	}
	o.rest = Subtract(o.rest[:0], prefix, o.exceptions.holes(entry.Rule))
	for _, prefix := range o.rest {
		if !yield(Someone{Scope: IP, Prefix: prefix, Entry: entry}) {
			return false
		}
	}
	return true
}

// isCut says that a key is only the beginning of what requests have, and a hash: it names nobody.
func isCut(key string) bool { return strings.Contains(key, "…#") }

// Parse reads an address or a prefix as the list has it. What it gives for anything else is not valid.
func Parse(value string) netip.Prefix {
	if strings.IndexByte(value, '/') >= 0 {
		prefix, err := netip.ParsePrefix(value)
		if err != nil {
			return netip.Prefix{}
		}
		return address.PlainPrefix(prefix)
	}

	ip, err := netip.ParseAddr(value)
	if err != nil {
		return netip.Prefix{}
	}

	ip = address.Plain(ip)
	return netip.PrefixFrom(ip, ip.BitLen())
}

// Text is a prefix as the list has it: a single address without its mask.
func Text(prefix netip.Prefix) string {
	if prefix.IsSingleIP() {
		return prefix.Addr().String()
	}
	return prefix.String()
}
