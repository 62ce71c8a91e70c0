package outright

import (
	"net/netip"

	"github.com/gaissmai/bart"
)

// Subtract appends the rest of a prefix without the holes: as few sorted, disjoint prefixes as possible.
func Subtract(rest []netip.Prefix, prefix netip.Prefix, holes *bart.Lite) []netip.Prefix {
	if holes == nil || !holes.OverlapsPrefix(prefix) {
		return append(rest, prefix)
	}
	if holes.LookupPrefix(prefix) {
		return rest
	}
	lower, upper := Halves(prefix)
	return Subtract(Subtract(rest, lower, holes), upper, holes)
}

// Halves splits a prefix that is not a single address.
func Halves(prefix netip.Prefix) (lower, upper netip.Prefix) {
	bits := prefix.Bits()
	address := prefix.Addr().AsSlice()
	lower = netip.PrefixFrom(prefix.Addr(), bits+1)
	address[bits/8] |= 0x80 >> (bits % 8)
	second, _ := netip.AddrFromSlice(address)
	return lower, netip.PrefixFrom(second, bits+1)
}
