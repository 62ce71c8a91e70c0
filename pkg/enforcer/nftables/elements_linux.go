package nftables

import (
	"bytes"
	"math/bits"
	"net/netip"
	"slices"

	"github.com/google/nftables"

	"weir/pkg/blocklist"
	"weir/pkg/enforcer/cidr"
)

// messageElements are as many as fit into one message, whose length is 16 bits.
const messageElements = 500

// addStep adds a step's messages to a transaction.
func addStep(conn *nftables.Conn, sets [2]*nftables.Set, s step) error {
	for _, part := range []struct {
		do       func(*nftables.Set, []nftables.SetElement) error
		elements []element
	}{{conn.SetAddElements, s.before}, {conn.SetDeleteElements, s.out}, {conn.SetAddElements, s.in}} {
		for family, set := range sets {
			of := slices.DeleteFunc(slices.Clone(part.elements), func(e element) bool { return setOf(e.Block) != sets[family].Name })
			for chunk := range slices.Chunk(of, messageElements) {
				if err := part.do(set, intervals(chunk)); err != nil {
					return err
				}
			}
		}
	}

	return nil
}

// intervals are the elements as the kernel has them: where each begins, and where it is over, if there is anything
// after it.
func intervals(of []element) []nftables.SetElement {
	all := make([]nftables.SetElement, 0, 2*len(of))
	for _, e := range of {
		all = append(all, nftables.SetElement{Key: e.Prefix.Addr().AsSlice(), Timeout: e.timeout})
		if after := last(e.Prefix).Next(); after.IsValid() {
			all = append(all, nftables.SetElement{Key: after.AsSlice(), IntervalEnd: true})
		}
	}
	return all
}

// last is the last address of a prefix.
func last(p netip.Prefix) netip.Addr {
	address := p.Addr().AsSlice()
	for i := range address {
		address[i] |= byte(0xff >> min(max(p.Bits()-8*i, 0), 8))
	}
	end, _ := netip.AddrFromSlice(address)
	return end
}

// blocksOf reads a set's elements. It is false for intervals that are no prefixes: they are not ours.
func blocksOf(elements []nftables.SetElement, now int64) ([]cidr.Block, bool) {
	slices.SortFunc(elements, func(a, b nftables.SetElement) int {
		if order := bytes.Compare(a.Key, b.Key); order != 0 || a.IntervalEnd == b.IntervalEnd {
			return order
		}
		if a.IntervalEnd { // that of the interval before
			return -1
		}
		return 1
	})

	var blocks []cidr.Block
	for i, e := range elements {
		if e.IntervalEnd {
			continue
		}
		var end []byte
		if i+1 < len(elements) {
			if !elements[i+1].IntervalEnd {
				return nil, false
			}
			end = elements[i+1].Key
		}

		prefix, ok := prefixOf(e.Key, end)
		if !ok {
			return nil, false
		}

		blocks = append(blocks, cidr.Block{Prefix: prefix, Until: untilOf(e, now)})
	}

	return blocks, true
}

func untilOf(e nftables.SetElement, now int64) int64 {
	if e.Timeout == 0 {
		return blocklist.Never
	}
	return now + e.Expires.Milliseconds()
}

// prefixOf is the prefix from an address to before another, or to the last one of all.
func prefixOf(from, after []byte) (netip.Prefix, bool) {
	first, ok := netip.AddrFromSlice(from)
	end := netip.PrefixFrom(first, 0)
	if !ok {
		return netip.Prefix{}, false
	}

	final := last(end.Masked())
	if after != nil {
		over, ok := netip.AddrFromSlice(after)
		if !ok || !over.Prev().IsValid() {
			return netip.Prefix{}, false
		}
		final = over.Prev()
	}

	p := netip.PrefixFrom(first, commonBits(from, final.AsSlice()))
	return p, p.Masked() == p && last(p) == final
}

// commonBits is how many bits two addresses have in common.
func commonBits(a, b []byte) int {
	for i := range a {
		if different := a[i] ^ b[i]; different != 0 {
			return 8*i + bits.LeadingZeros8(different)
		}
	}
	return 8 * len(a)
}
