package blocklist

import (
	"net/netip"
	"sync/atomic"

	"github.com/gaissmai/bart"
)

// prefixes find the orders over an address. One of the two tables has the prefix, with its order's end.
type prefixes struct {
	blocks, allows atomic.Pointer[bart.Table[int64]] // nil while there are none
	published      bool                              // by readers: from then on tables are copied when they change
}

func (p *prefixes) table(kind Kind) *atomic.Pointer[bart.Table[int64]] {
	if kind == OrderAllow {
		return &p.allows
	}
	return &p.blocks
}

// any reports whether there are orders over addresses.
func (p *prefixes) any() bool { return p.blocks.Load() != nil || p.allows.Load() != nil }

func (p *prefixes) add(o *Order) {
	place, prefix := p.table(o.Kind), o.Prefix()
	old := place.Load()
	switch {
	case old == nil:
		old = new(bart.Table[int64])
		old.Insert(prefix, o.Until)
		place.Store(old)
	case p.published:
		place.Store(old.InsertPersist(prefix, o.Until))
	default:
		old.Insert(prefix, o.Until)
	}
}

func (p *prefixes) drop(o *Order) {
	place, prefix := p.table(o.Kind), o.Prefix()
	old := place.Load()
	switch {
	case old == nil:
	case p.published:
		old = old.DeletePersist(prefix)
		if old.Size() == 0 {
			old = nil
		}
		place.Store(old)
	default:
		old.Delete(prefix)
	}
}

// over returns the longest prefix over an address with an active order of the kind.
func (p *prefixes) over(kind Kind, ip netip.Addr, now int64) (netip.Prefix, bool) {
	t := p.table(kind).Load()
	if t == nil {
		return netip.Prefix{}, false
	}

	// Nearly all addresses are under no order, and this lookup is the fastest.
	if _, ok := t.Lookup(ip); !ok {
		return netip.Prefix{}, false
	}

	single := netip.PrefixFrom(ip, ip.BitLen())
	prefix, until, ok := t.LookupPrefixLPM(single)
	if !ok || until > now {
		return prefix, ok
	}

	for prefix, until := range t.Supernets(single) { // the longest has ended, and is not yet removed
		if until > now {
			return prefix, true
		}
	}

	return netip.Prefix{}, false
}
