package cidr

import (
	"iter"
	"net/netip"
	"strings"

	"weir/pkg/blocklist"
)

// A List is what is selected from: a blocklist.Set.
type List interface {
	All(nowMilli int64) iter.Seq[*blocklist.Entry]
	Orders(nowMilli int64) iter.Seq[*blocklist.Order]
}

// Covers says of a rule that its blocks cover every request of their key. It is false for rules that are not known.
type Covers func(rule string) bool

// Select are the blocks of a list that edges can refuse by the address alone, made disjoint. Left out are shadow entries, entries
// of rules that do not cover everything, of keys that are more than an address, of rules that are paused, and what is
// pardoned.
func Select(list List, covers Covers, nowMilli int64) []Block {
	orders := ordersOf(list, nowMilli)
	if orders.paused[blocklist.EveryRule] {
		return nil
	}
	covered := map[string]bool{}
	var blocks []Block
	for e := range list.All(nowMilli) {
		if _, known := covered[e.Rule]; !known {
			covered[e.Rule] = !orders.paused[e.Rule] && covers(e.Rule)
		}
		if e.Mode != blocklist.Enforce || e.Source != blocklist.Manual && (!covered[e.Rule] || orders.pardoned[e.ID]) {
			continue
		}
		if prefix, ok := onlyAddress(e); ok {
			blocks = append(blocks, Block{Prefix: prefix, Until: e.Until, Rule: e.Rule})
		}
	}
	return Disjoint(blocks, orders.allowed)
}

// ordered is what people ordered of a list, but for blocks.
type ordered struct {
	allowed  []netip.Prefix
	paused   map[string]bool // by rule
	pardoned map[string]bool // by the entry's id
}

func ordersOf(list List, nowMilli int64) ordered {
	found := ordered{paused: map[string]bool{}, pardoned: map[string]bool{}}
	for o := range list.Orders(nowMilli) {
		switch o.Kind {
		case blocklist.OrderAllow:
			if prefix, ok := parse(o.Value); ok && o.Scope == "ip" {
				found.allowed = append(found.allowed, prefix)
			}
		case blocklist.OrderPause:
			found.paused[o.Rule] = true
		case blocklist.OrderPardon:
			found.pardoned[o.Pardons] = true
		}
	}
	return found
}

// onlyAddress is the address or the prefix of an entry whose key is nothing else.
func onlyAddress(e *blocklist.Entry) (netip.Prefix, bool) {
	address, ok := e.Fields["ip"]
	if !ok || len(e.Fields) > 1 {
		return netip.Prefix{}, false
	}
	return parse(address)
}

func parse(text string) (netip.Prefix, bool) {
	if strings.Contains(text, "/") {
		prefix, err := netip.ParsePrefix(text)
		return Canonical(prefix), err == nil
	}
	address, err := netip.ParseAddr(text)
	address = address.Unmap().WithZone("")
	return netip.PrefixFrom(address, address.BitLen()), err == nil
}
