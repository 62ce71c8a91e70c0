package geoip

import "net/netip"

// The answers about the last addresses are kept in sets of a few. An address has one set, by a hash. With 2,048 places,
// most of the last thousand addresses are there.
const (
	sets   = 512
	places = 4
)

// A Finder finds what the databases say about addresses, and remembers the last ones. One goroutine uses it.
type Finder struct {
	of   *Databases
	last *[sets]set  // nil until the first address
	next [sets]uint8 // of each set, the place that is used next
}

type set struct {
	addresses [places]address6
	at        [places][fields]uint32
}

// NewFinder makes a Finder. It takes 66 KB once it is used.
func (d *Databases) NewFinder() *Finder { return &Finder{of: d} }

// Has reports whether the databases have a field; not without any.
func (f *Finder) Has(field Field) bool { return f != nil && f.of.Has(field) }

// Find is what the databases say about an address. It allocates nothing, except at the first call.
func (f *Finder) Find(ip netip.Addr) Place {
	ip = ip.Unmap()
	if !ip.IsValid() || ip.IsUnspecified() { // places that are not used yet are of ::
		return f.of.Find(ip)
	}
	if f.last == nil {
		f.last = new([sets]set)
	}
	address := address6Of(ip)
	hash := (address.high*0x9e3779b97f4a7c15 ^ address.low) * 0xff51afd7ed558ccd
	number := hash >> (64 - 9)
	s := &f.last[number]
	for i := range s.addresses {
		if s.addresses[i] == address {
			return Place{f.of, s.at[i]}
		}
	}

	p := f.of.Find(ip)
	i := f.next[number] % places
	s.addresses[i], s.at[i] = address, p.at
	f.next[number] = i + 1
	return p
}
