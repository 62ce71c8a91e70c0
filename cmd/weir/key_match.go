package main

import (
	"net/netip"

	"weir/pkg/blocklist"
)

// A keyMatch says which entries concern a key that a person typed.
type keyMatch struct {
	text   string
	scope  string // of a target: ip, user, …; empty when the text is none
	value  string
	prefix netip.Prefix // of the scope ip
}

func newKeyMatch(text string) *keyMatch {
	m := &keyMatch{text: text}
	scope, value, err := blocklist.ParseTarget(text)
	if err != nil {
		return m
	}
	m.scope, m.value = scope, value
	if scope == "ip" {
		m.prefix = prefixOf(value)
	}
	return m
}

// prefixOf is an address or a prefix as a prefix; not valid for what is neither.
func prefixOf(text string) netip.Prefix {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return prefix
	}
	address, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(address, address.BitLen())
}

// matches says whether an entry, or an order, holds the key or lies within it. A pardon concerns the key it pardons.
func (m *keyMatch) matches(e *shownEntry) bool {
	if e.Key == m.text || e.target() == m.text || m.scope != "" && e.Fields[m.scope] == m.value {
		return true
	}
	if e.Order == blocklist.OrderPardon && (e.Fields["key"] == m.text || m.holds(e.Fields["key"])) {
		return true
	}
	return m.holds(e.Fields["ip"])
}

func (m *keyMatch) holds(ip string) bool {
	if !m.prefix.IsValid() || ip == "" {
		return false
	}
	other := prefixOf(ip)
	return other.IsValid() && other.Overlaps(m.prefix)
}
