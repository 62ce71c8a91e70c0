// Package cidr makes of the blocklist what edges can refuse that know addresses and nothing else: firewalls, maps,
// plain lists.
//
// [Select] takes from a list the blocks that are in force and whose key is an address or a prefix and nothing else, of
// rules that cover every request of their key, and what people ordered. [Disjoint] makes them prefixes of which no two
// overlap, as the sets of firewalls want them, with the allowed ones taken out: an address is in one of the prefixes if
// and only if a block holds it and no allow does, and that prefix lasts as long as the longest of the blocks that hold it. [Diff]
// is what leads from one such list to another.
//
// A hole in a block leaves as many prefixes as its length is greater: a /32 allowed within a blocked /8 leaves 24. The
// time that Disjoint takes is that of sorting, and for each block within another at most one step for each bit between them. It takes
// memory for the blocks once more, and for what it gives. Nothing here reads a clock, does I/O or starts goroutines.
package cidr

import (
	"cmp"
	"math"
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

// Disjoint are prefixes in the order of Compare, of which no two overlap, that hold every address of the blocks but
// the allowed ones. An address that several blocks hold is in a prefix with the Until and the Rule of that which lasts
// longest. Prefixes that are not valid are left out.
func Disjoint(blocks []Block, allowed []netip.Prefix) []Block {
	all := make([]piece, 0, len(blocks)+len(allowed))
	for _, b := range blocks {
		all = appendPiece(all, piece{Block: b})
	}
	for _, prefix := range allowed {
		all = appendPiece(all, piece{Block: Block{Prefix: prefix}, allowed: true})
	}
	slices.SortFunc(all, comparePieces)
	carved := make([]Block, 0, len(blocks))
	for len(all) > 0 {
		within := 1
		for within < len(all) && all[0].Prefix.Overlaps(all[within].Prefix) {
			within++
		}
		carved = carve(carved, Block{Prefix: all[0].Prefix, Until: math.MinInt64}, all[:within])
		all = all[within:]
	}
	return carved
}

// A piece is a block or what is allowed.
type piece struct {
	Block
	allowed bool
}

// comparePieces orders those of one prefix too, so that the same list always gives the same.
func comparePieces(a, b piece) int {
	if order := Compare(a.Block, b.Block); order != 0 {
		return order
	}
	return cmp.Or(cmp.Compare(b.Until, a.Until), cmp.Compare(a.Rule, b.Rule))
}

func appendPiece(all []piece, p piece) []piece {
	if p.Prefix = Canonical(p.Prefix); p.Prefix.IsValid() {
		all = append(all, p)
	}
	return all
}

// Canonical is a prefix with the bits beyond its length cleared, and IPv4 within IPv6 as IPv4.
func Canonical(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked()
}

// carve appends what is refused within a prefix, of which all is refused as whole says but what the pieces change. The
// pieces are sorted, within the prefix, and lost.
func carve(carved []Block, whole Block, pieces []piece) []Block {
	for ; len(pieces) > 0 && pieces[0].Prefix == whole.Prefix; pieces = pieces[1:] {
		if pieces[0].allowed {
			return carved
		}
		if pieces[0].Until > whole.Until {
			whole = pieces[0].Block
			pieces = append(pieces[:1], changing(pieces[1:], whole.Until)...)
		}
	}
	if len(pieces) == 0 {
		return append(carved, whole)
	}
	low, high := halves(whole)
	middle, _ := slices.BinarySearchFunc(pieces, high.Prefix.Addr(), func(p piece, at netip.Addr) int { return p.Prefix.Addr().Compare(at) })
	return carve(carve(carved, low, pieces[:middle]), high, pieces[middle:])
}

// changing are the pieces that say something else than refused until then.
func changing(pieces []piece, until int64) []piece {
	return slices.DeleteFunc(pieces, func(p piece) bool { return !p.allowed && p.Until <= until })
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
