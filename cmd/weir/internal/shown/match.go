package shown

import (
	"net/netip"

	"weir/internal/address"
	"weir/pkg/blocklist"
)

// A Match finds the entries that concern a key that a person typed.
type Match struct {
	text   string
	scope  string // of a target: ip, user, …; empty when the text is not a target
	value  string
	prefix netip.Prefix // set with the scope ip
}

// NewMatch reads a key: one that the list shows, an address, a prefix, or a field with its value.
func NewMatch(text string) *Match {
	m := &Match{text: text}
	scope, value, err := blocklist.ParseTarget(text)
	if err != nil {
		return m
	}
	m.scope, m.value = scope, value
	if scope == "ip" {
		m.prefix = Prefix(value)
	}
	return m
}

// Prefix returns an address or a prefix as a prefix; an invalid one for any other text.
func Prefix(text string) netip.Prefix {
	prefix, _ := address.Parse(text)
	return prefix
}

// Covers reports whether an entry covers the key or lies within it. An unblock concerns the key that it unblocks.
func (m *Match) Covers(e *Entry) bool {
	if e.Key == m.text || e.Target() == m.text || m.scope != "" && e.Fields[m.scope] == m.value {
		return true
	}
	if e.Order == blocklist.OrderPardon && (e.Fields["key"] == m.text || m.overlaps(e.Fields["key"])) {
		return true
	}
	return m.overlaps(e.Fields["ip"])
}

// Overlaps reports whether an entry is of an address within the key, or of a prefix that contains it.
func (m *Match) Overlaps(e *Entry) bool { return m.overlaps(e.Fields["ip"]) }

// Within reports whether everyone that an entry refuses is within the key.
func (m *Match) Within(e *Entry) bool {
	if !m.prefix.IsValid() {
		return m.scope != "" && e.Fields[m.scope] == m.value
	}
	ip := Prefix(e.Fields["ip"])
	return ip.IsValid() && m.prefix.Bits() <= ip.Bits() && m.prefix.Overlaps(ip)
}

func (m *Match) overlaps(ip string) bool {
	if !m.prefix.IsValid() || ip == "" {
		return false
	}
	other := Prefix(ip)
	return other.IsValid() && other.Overlaps(m.prefix)
}

// shortestKey is the shortest prefix that Keys has.
const shortestKey = 8

// Keys are the keys of rules by which requests of this key may have counted: the text, the value of a field, and the
// prefixes that contain an address.
func (m *Match) Keys() []string {
	keys := []string{m.text}
	if m.scope != "" && m.scope != "ip" {
		keys = append(keys, m.value)
	}
	if !m.prefix.IsValid() {
		return keys
	}
	bits := m.prefix.Bits()
	if m.prefix.IsSingleIP() {
		keys = append(keys, m.prefix.Addr().String())
		bits--
	}
	for ; bits >= shortestKey; bits-- {
		keys = append(keys, netip.PrefixFrom(m.prefix.Addr(), bits).Masked().String())
	}
	return keys
}
