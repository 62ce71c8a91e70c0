// Package cidr makes of the blocklist what firewalls and proxies take: prefixes of which no two overlap.
//
// [Refused] takes from a list the addresses that are refused outright (package outright says which), allowed ones taken
// out. [Disjoint] makes of prefixes that may hold each other such that do not: an address is in one of them if and only
// if a block holds it, and that prefix lasts as long as the longest of the blocks that hold the address. So kernels
// take them, who refuse sets of intervals that overlap, and a longer block within a shorter one outlasts it. [Diff] is
// what leads from one such list to another.
//
// A block that outlasts one around it leaves as many prefixes as it is longer: of a /8 around a /32 there are 25. The
// time that Disjoint takes is that of sorting, and at most a step for each bit between a block and the one around it.
// It takes memory for the blocks once more, and for what it gives. Nothing here reads a clock, does I/O or starts
// goroutines.
package cidr

import (
	"cmp"
	"net/netip"
	"slices"
)

// A Block is a prefix that is refused until a time.
type Block struct {
	Prefix netip.Prefix
	Until  int64  // Unix milliseconds; blocklist.Never
	Rule   string // whose block lasts so long; manual for orders
}

// Compare orders blocks by their prefixes: IPv4 first, by address, the wider first.
func Compare(a, b Block) int { return comparePrefixes(a.Prefix, b.Prefix) }

func comparePrefixes(a, b netip.Prefix) int {
	if order := a.Addr().Compare(b.Addr()); order != 0 {
		return order
	}
	return cmp.Compare(a.Bits(), b.Bits())
}

// Disjoint are prefixes in the order of Compare, of which no two overlap, that hold every address of the blocks and no
// other. An address that several blocks hold is in a prefix with the Until and the Rule of that which lasts longest; of
// equals, of the widest. The order of the blocks does not matter, and those that are not valid are left out.
func Disjoint(blocks []Block) []Block {
	all := make([]Block, 0, len(blocks))
	for _, b := range blocks {
		if b.Prefix = Canonical(b.Prefix); b.Prefix.IsValid() {
			all = append(all, b)
		}
	}

	slices.SortFunc(all, compareAll)
	carved := make([]Block, 0, len(all))
	for len(all) > 0 {
		within := 1
		for within < len(all) && all[0].Prefix.Overlaps(all[within].Prefix) {
			within++
		}
		carved = carve(carved, all[0], all[1:within])
		all = all[within:]
	}

	return carved
}

// compareAll orders the blocks of one prefix too: that which lasts longest first.
func compareAll(a, b Block) int {
	if order := Compare(a, b); order != 0 {
		return order
	}
	return cmp.Or(cmp.Compare(b.Until, a.Until), cmp.Compare(a.Rule, b.Rule))
}

// Canonical is a prefix with the bits beyond its length cleared, and IPv4 within IPv6 as IPv4.
func Canonical(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked()
}

// carve appends what is left of a block when those within it that outlast it are cut out, and these. Those within are
// sorted, and lost.
func carve(carved []Block, whole Block, within []Block) []Block {
	within = slices.DeleteFunc(within, func(b Block) bool { return b.Until <= whole.Until })
	if len(within) == 0 {
		return append(carved, whole)
	}
	if within[0].Prefix == whole.Prefix {
		return carve(carved, within[0], within[1:])
	}
	low, high := halves(whole)
	middle, _ := slices.BinarySearchFunc(within, high.Prefix.Addr(), func(b Block, at netip.Addr) int { return b.Prefix.Addr().Compare(at) })
	return carve(carve(carved, low, within[:middle]), high, within[middle:])
}

func halves(b Block) (low, high Block) {
	bits := b.Prefix.Bits()
	address := b.Prefix.Addr().AsSlice()
	address[bits/8] |= 0x80 >> (bits % 8)
	upper, _ := netip.AddrFromSlice(address)
	low, high = b, b
	low.Prefix, high.Prefix = netip.PrefixFrom(b.Prefix.Addr(), bits+1), netip.PrefixFrom(upper, bits+1)
	return low, high
}

// Diff is what leads from one list that Disjoint gave to another: the prefixes that are gone, those that come, and
// those that stay and have another end or another rule, as they are to be.
func Diff(have, want []Block) (gone, come, changed []Block) {
	for len(have) > 0 && len(want) > 0 {
		switch order := Compare(have[0], want[0]); {
		case order < 0:
			gone, have = append(gone, have[0]), have[1:]
		case order > 0:
			come, want = append(come, want[0]), want[1:]
		default:
			if have[0] != want[0] {
				changed = append(changed, want[0])
			}
			have, want = have[1:], want[1:]
		}
	}

	return append(gone, have...), append(come, want...), changed
}
