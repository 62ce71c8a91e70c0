package blocklist

import (
	"net/netip"

	"weir/internal/address"
)

func (c *content) check(a *Asked, now int64) Answer {
	if c.paused.Load() > now {
		return Answer{Paused: true}
	}
	var answer Answer
	var ip netip.Addr
	ordered := c.prefixes.any()
	// Allows come first, because an allow beats every block.
	if ordered {
		ip = address.Plain(a.IP)
		if c.byAddress(&answer, OrderAllow, ip, now); answer.Allowed.Found() {
			return answer
		}
	}

	// Most lists have no such orders, and then the fields of the request are not looked at.
	if c.fields.Load() > 0 {
		if c.byFields(&answer, a, now); answer.Allowed.Found() {
			return answer
		}
	}

	if ordered {
		// Only now, when no order to allow is left that could beat it.
		c.byAddress(&answer, OrderBlock, ip, now)
	}
	for i := range a.Keys {
		if h := c.get(a.Keys[i].Rule, a.Keys[i].Key); h.inForce(now) && (a.Covered == nil || a.Covered(i)) {
			answer.verdict(h.at(now), now)
		}
	}

	return answer
}

// byAddress asks for orders of one kind over an address.
func (c *content) byAddress(answer *Answer, kind Kind, ip netip.Addr, now int64) {
	prefix, ok := c.prefixes.over(kind, ip, now)
	if !ok {
		return
	}
	var room [64]byte
	answer.order(c.get(ipRule, address.Append(room[:0], prefix)), now)
}

const (
	ipRule   = ManualRule + "/" + scopeIP
	userRule = ManualRule + "/" + scopeUser
)

// byFields asks for orders of scopes other than ip.
func (c *content) byFields(answer *Answer, a *Asked, now int64) {
	if a.User != "" {
		answer.order(c.get(userRule, bytesOf(a.User)), now)
	}
	for i := range a.Fields {
		var room [64]byte
		name := append(append(room[:0], ManualRule+"/"...), a.Fields[i].Name...)
		answer.order(c.get(textOf(name), bytesOf(a.Fields[i].Value)), now)
	}
}

// order adds an order that was found.
func (a *Answer) order(h Held, now int64) {
	switch {
	case !h.inForce(now) || a.Allowed.Found():
	// It also takes back a block that was found before it, over a field that was asked first.
	case h.kind() == OrderAllow:
		a.Allowed, a.Entry = h, Held{}
	case h.kind() == OrderBlock && h.Until() > a.until() && h.rule.pausedUntil.Load() <= now:
		a.Entry = h
	}
}

// byKey asks for a rule's entry.
func (c *content) byKey(answer *Answer, rule string, key []byte, now int64) {
	if h := c.get(rule, key); h.inForce(now) {
		answer.verdict(h.at(now), now)
	}
}

// verdict adds an active entry of a rule.
func (a *Answer) verdict(h Held, now int64) {
	switch {
	case h.Shadow():
		if !a.Shadow.Found() || h.Until() > a.Shadow.Until() {
			a.Shadow = h
		}
	case h.rule.pausedUntil.Load() > now:
		a.Paused = true
	case h.Until() > a.until():
		a.Entry = h
	}
}

// until returns the end of the entry that refuses so far.
func (a *Answer) until() int64 {
	if !a.Entry.Found() {
		return 0
	}
	return a.Entry.Until()
}
