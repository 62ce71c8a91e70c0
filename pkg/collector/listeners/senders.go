package listeners

import (
	"net/netip"
	"slices"
	"sync/atomic"

	"weir/internal/address"
)

// Senders are the addresses that may send to a source. They may be changed at any time.
type Senders struct {
	prefixes atomic.Pointer[[]netip.Prefix]
}

// NewSenders returns the senders with addresses in the prefixes.
func NewSenders(prefixes []netip.Prefix) *Senders {
	s := &Senders{}
	s.Set(prefixes)
	return s
}

// Set replaces the prefixes.
func (s *Senders) Set(prefixes []netip.Prefix) {
	prefixes = slices.Clone(prefixes)
	s.prefixes.Store(&prefixes)
}

// may reports whether an address may send; without senders all may.
func (s *Senders) may(sender netip.Addr) bool {
	if s == nil {
		return true
	}
	sender = address.Plain(sender)
	return slices.ContainsFunc(*s.prefixes.Load(), func(p netip.Prefix) bool { return p.Contains(sender) })
}
