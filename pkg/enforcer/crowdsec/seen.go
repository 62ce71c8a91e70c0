package crowdsec

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"weir/pkg/blocklist"
	"weir/pkg/enforcer/outright"
)

const (
	maxSeen        = 10_000 // entries of which addresses are remembered
	maxSeenOfEntry = 64     // addresses of each
	maxSpread      = 8      // bits of a prefix that is spread over its addresses
)

// seen are single addresses that were refused by entries over a prefix, for bouncers that drop masks: they would ban
// the first address of a prefix, and nobody else.
type seen struct {
	mu      sync.Mutex
	entries map[string][]netip.Addr // by the entry's id
	added   atomic.Uint64           // counts what changed of them
}

func newSeen() *seen { return &seen{entries: map[string][]netip.Addr{}} }

// Saw takes notice of an address that an entry refuses. Checks tell it of each refusal; it matters where there are bouncers
// that drop masks.
func (a *API) Saw(entry *blocklist.Entry, client netip.Addr) {
	if len(a.Addresses) > 0 {
		a.seen.add(entry.ID, client)
	}
}

func (s *seen) add(entry string, client netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	addresses, known := s.entries[entry]
	if len(addresses) >= maxSeenOfEntry || slices.Contains(addresses, client) {
		return
	}

	if !known && len(s.entries) >= maxSeen {
		for any := range s.entries {
			delete(s.entries, any)
			break
		}
	}

	s.entries[entry] = append(addresses, client)
	s.added.Add(1)
}

// spread gives the single addresses that stand for a prefix: all of them where they are few, else those that were seen.
func (s *seen) spread(someone outright.Someone) (single []netip.Prefix) {
	prefix := someone.Prefix
	if prefix.IsSingleIP() {
		return []netip.Prefix{prefix}
	}
	if bits := prefix.Addr().BitLen(); bits-prefix.Bits() <= maxSpread {
		for address := prefix.Addr(); prefix.Contains(address); address = address.Next() {
			single = append(single, netip.PrefixFrom(address, bits))
		}
		return single
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	for _, address := range s.entries[someone.Entry.ID] {
		if prefix.Contains(address) {
			single = append(single, netip.PrefixFrom(address, address.BitLen()))
		}
	}

	return single
}
