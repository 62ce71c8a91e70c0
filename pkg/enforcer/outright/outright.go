// Package outright selects the entries that refuse every request of a client. Readers that see no requests can use such
// a list: a firewall, a map in a proxy's memory, or a bouncer of CrowdSec.
//
// All yields these active entries: enforced ones, of one field only (the address, the user, …), of rules that cover
// everything, and all blocks by hand. It leaves out entries of a rule that is paused, in shadow mode here, or unknown,
// because the requests that an unknown rule covers are not known. It also leaves out those of secret fields: their values
// are hashes, with which no edge compares a request.
//
// Allow beats block: allowed prefixes, of orders and of the rules' plain lists, are removed from blocked ones, and the
// rest of a prefix is as few disjoint prefixes as possible. An allowed user is left out under the user. The package
// cannot see that a request of an allowed user comes from a blocked address: that address stays blocked.
//
// Lists and checks agree about addresses: a check refuses every address in the list, and the list has no address that a
// check allows. Nothing is kept between calls, nothing is started. A call takes time in proportion to the list, and
// each hole in a prefix costs at most 127 prefixes.
package outright

import (
	"iter"
	"net/netip"
	"strings"

	"weir/internal/address"
	"weir/internal/keytext"
	"weir/pkg/blocklist"
	"weir/pkg/rule"
)

// A List is a blocklist in memory.
type List interface {
	// All yields the active entries at a time in Unix ms, including blocks by hand.
	All(nowMilli int64) iter.Seq[*blocklist.Entry]
	// Orders yields the active orders at that time.
	Orders(nowMilli int64) iter.Seq[*blocklist.Order]
	// Edits returns a number that changes with the entries and orders, but not with ends that come by the clock.
	Edits() uint64
	// Whole reports whether the list is complete.
	Whole() bool
}

// While returns the list as long as it is enforced, and an empty list otherwise: in shadow mode.
func While(enforced func() bool, list List) List { return conditional{list, enforced} }

type conditional struct {
	List
	enforced func() bool
}

// All yields the list's entries while it is enforced.
func (c conditional) All(nowMilli int64) iter.Seq[*blocklist.Entry] {
	if !c.enforced() {
		return func(func(*blocklist.Entry) bool) {}
	}
	return c.List.All(nowMilli)
}

// Edits returns the list's number, and another one while it is not enforced.
func (c conditional) Edits() uint64 {
	edits := c.List.Edits() << 1
	if c.enforced() {
		edits++
	}
	return edits
}

// IP is the scope of addresses and prefixes. Other scopes are the names of fields: user, host, …
const IP = "ip"

// A Someone is a value that is refused outright.
type Someone struct {
	Scope  string
	Prefix netip.Prefix // for IP
	Value  string       // for other scopes, in the form that requests have
	Entry  *blocklist.Entry
}

// All yields every value that is refused outright, one entry after the other. The rules may be nil.
func All(list List, rules *rule.Set, nowMilli int64) iter.Seq[Someone] {
	return func(yield func(Someone) bool) {
		o := overall{exceptions: exceptionsOf(list, rules, nowMilli), rules: rules}
		for entry := range list.All(nowMilli) {
			if !o.each(entry, yield) {
				return
			}
		}
	}
}

// An overall is the state of one call.
type overall struct {
	exceptions *exceptions
	rules      *rule.Set
	rest       []netip.Prefix // of one entry
}

// each yields the values that an entry refuses outright; it returns false when no more are wanted.
func (o *overall) each(entry *blocklist.Entry, yield func(Someone) bool) bool {
	if entry.Mode != blocklist.Enforce || len(entry.Fields) != 1 || !o.exceptions.carries(entry.Rule) {
		return true
	}
	for scope, value := range entry.Fields {
		if scope == IP {
			return o.addresses(entry, value, yield)
		}
		if isCut(entry.Key) || o.rules != nil && o.rules.Hides(scope) || o.exceptions.allows(entry.Rule, scope, value) {
			return true
		}
		return yield(Someone{Scope: scope, Value: value, Entry: entry})
	}

	return true
}

func (o *overall) addresses(entry *blocklist.Entry, value string, yield func(Someone) bool) bool {
	prefix, err := address.Parse(value)
	if err != nil {
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

// isCut reports that a key is only the beginning of a longer value, and a hash: it identifies no client.
func isCut(key string) bool { return strings.Contains(key, keytext.CutMark) }
