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
	maxSeen        = 10_000 // entries with remembered addresses
	maxSeenOfEntry = 64     // addresses of each
	maxSpread      = 8      // a prefix with at most this many free bits is expanded to its addresses
)

// refusedAddresses are single addresses that were refused by entries over a prefix, for bouncers that drop masks: these would ban
// only the first address of a prefix.
type refusedAddresses struct {
	mu      sync.Mutex
	entries map[string][]netip.Addr // by the entry's id
	added   atomic.Uint64           // counts their changes
}

func newRefusedAddresses() *refusedAddresses {
	return &refusedAddresses{entries: map[string][]netip.Addr{}}
}

// Saw records an address that an entry refuses. The enforcer calls it for each refusal; it matters only for bouncers
// that drop masks.
func (a *API) Saw(entry *blocklist.Entry, client netip.Addr) {
	if len(a.Addresses) > 0 {
		a.refused.add(entry.ID, client)
	}
}

func (s *refusedAddresses) add(entry string, client netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	addresses, known := s.entries[entry]
	if len(addresses) >= maxSeenOfEntry || slices.Contains(addresses, client) {
		return
	}

	// Any entry leaves: an attacker with many prefixes can have others forgotten, but not use more memory. Refused
	// clients come again.
	if !known && len(s.entries) >= maxSeen {
		for any := range s.entries {
			delete(s.entries, any)
			break
		}
	}

	s.entries[entry] = append(addresses, client)
	s.added.Add(1)
}

// spread returns the single addresses for a prefix: all of a small one, else those that were seen.
func (s *refusedAddresses) spread(someone outright.Someone) (single []netip.Prefix) {
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
