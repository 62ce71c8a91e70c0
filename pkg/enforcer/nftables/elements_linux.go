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

// messageElements is how many elements fit into one message, whose length field has 16 bits.
const messageElements = 500

// addStep adds a step's messages to a transaction.
func addStep(conn *nftables.Conn, sets [2]*nftables.Set, s step) error {
	for _, part := range []struct {
		do       func(*nftables.Set, []nftables.SetElement) error
		elements []element
	}{{conn.SetAddElements, s.before}, {conn.SetDeleteElements, s.out}, {conn.SetAddElements, s.in}} {
		// The order within the transaction counts: the kernel refuses to remove a missing element, and to add one that
		// overlaps.
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

// intervals returns the elements in the kernel's form: the start of each, and its end unless it reaches to the last
// address.
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

// last returns the last address of a prefix.
func last(p netip.Prefix) netip.Addr {
	address := p.Addr().AsSlice()
	for i := range address {
		address[i] |= byte(0xff >> min(max(p.Bits()-8*i, 0), 8))
	}
	end, _ := netip.AddrFromSlice(address)
	return end
}

// blocksOf reads a set's elements. It returns false for intervals that are not prefixes: they are not ours.
func blocksOf(elements []nftables.SetElement, now int64) ([]cidr.Block, bool) {
	slices.SortFunc(elements, func(a, b nftables.SetElement) int {
		if order := bytes.Compare(a.Key, b.Key); order != 0 || a.IntervalEnd == b.IntervalEnd {
			return order
		}
		if a.IntervalEnd { // the end of the previous interval
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
		// The kernel gives no end to an interval that reaches to the last address.
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

// prefixOf returns the prefix from one address to just before another, or to the very last address.
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

	// An interval of another program need not be a prefix: then it does not begin or end where the prefix does.
	p := netip.PrefixFrom(first, commonBits(from, final.AsSlice()))
	return p, p.Masked() == p && last(p) == final
}

// commonBits returns how many leading bits two addresses have in common.
func commonBits(a, b []byte) int {
	for i := range a {
		if different := a[i] ^ b[i]; different != 0 {
			return 8*i + bits.LeadingZeros8(different)
		}
	}
	return 8 * len(a)
}
