// Package cidr turns the blocklist into a form for firewalls and proxies: prefixes that do not overlap.
//
// [Refused] returns the addresses that a list refuses outright (see package outright), without allowed ones. [Disjoint]
// turns prefixes that may contain each other into disjoint ones: an address is in one of them if and only if a block
// contains it, and that prefix lasts as long as the longest of the blocks that contain the address. So kernels accept
// them, which refuse sets of overlapping intervals, and a longer block within a shorter one outlasts it. [Diff] returns
// the changes from one such list to another.
//
// A block that outlasts one around it leaves as many prefixes as it is longer: a /8 around a /32 becomes 25. Disjoint
// takes the time of sorting, and at most a step for each bit between a block and the one around it. It needs memory for
// a copy of the blocks, and for the result. Nothing here reads a clock, does I/O or starts goroutines.
package cidr

import (
	"cmp"
	"net/netip"
	"slices"

	"weir/pkg/enforcer/outright"
)

// A Block is a prefix that is refused until a time.
type Block struct {
	Prefix netip.Prefix
	Until  int64  // Unix milliseconds; blocklist.Never
	Rule   string // of the block that lasts so long; manual for orders
}

// Compare sorts blocks by their prefixes: IPv4 first, by address, the wider first.
func Compare(a, b Block) int {
	if order := a.Prefix.Addr().Compare(b.Prefix.Addr()); order != 0 {
		return order
	}
	return cmp.Compare(a.Prefix.Bits(), b.Prefix.Bits())
}

// Disjoint returns prefixes that contain every address of the blocks and no other. They do not overlap, and are in the
// order of Compare. An address in several blocks is in a prefix with the Until and the Rule of the block that lasts
// longest; of equals, of the widest. The order of the blocks does not matter, and invalid ones are left out.
func Disjoint(blocks []Block) []Block {
	all := make([]Block, 0, len(blocks))
	for _, b := range blocks {
		if b.Prefix = canonical(b.Prefix); b.Prefix.IsValid() {
			all = append(all, b)
		}
	}

	slices.SortFunc(all, compareAll)
	carved := make([]Block, 0, len(all))

	// The widest prefix comes first, so all that overlap it stand directly behind it.
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

// compareAll also sorts the blocks of one prefix: the one that lasts longest first.
func compareAll(a, b Block) int {
	if order := Compare(a, b); order != 0 {
		return order
	}
	return cmp.Or(cmp.Compare(b.Until, a.Until), cmp.Compare(a.Rule, b.Rule))
}

// canonical returns a prefix with the bits beyond its length cleared, and IPv4 within IPv6 as IPv4.
func canonical(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked()
}

// carve appends the rest of a block without the inner blocks that outlast it, and these. The inner blocks are sorted;
// carve overwrites them.
func carve(carved []Block, outer Block, within []Block) []Block {
	within = slices.DeleteFunc(within, func(b Block) bool { return b.Until <= outer.Until })
	if len(within) == 0 {
		return append(carved, outer)
	}
	if within[0].Prefix == outer.Prefix {
		return carve(carved, within[0], within[1:])
	}
	low, high := halves(outer)
	middle, _ := slices.BinarySearchFunc(within, high.Prefix.Addr(), func(b Block, at netip.Addr) int { return b.Prefix.Addr().Compare(at) })
	return carve(carve(carved, low, within[:middle]), high, within[middle:])
}

func halves(b Block) (low, high Block) {
	low, high = b, b
	low.Prefix, high.Prefix = outright.Halves(b.Prefix)
	return low, high
}

// Diff returns the changes from one list of Disjoint to another: the prefixes that are gone, those that come, and those
// that stay with another end or another rule, in their new form.
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
