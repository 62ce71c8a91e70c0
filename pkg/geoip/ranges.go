package geoip

import (
	"encoding/binary"
	"net/netip"
	"sort"
)

// ranges4 are the ranges of IPv4, in their order. The first one begins at 0.0.0.0, and each ends where the next begins.
type ranges4 struct {
	from    []uint32
	records []uint32
	first   []uint32 // by the first 16 bits of an address: the number of ranges that begin before all of these addresses
}

// add begins a range, unless it continues the one before.
func (r *ranges4) add(from, record uint32) {
	last := len(r.from) - 1
	switch {
	case last >= 0 && r.from[last] == from:
		r.records[last] = record
	case last < 0 || r.records[last] != record:
		r.from, r.records = append(r.from, from), append(r.records, record)
	}
}

func (r *ranges4) index() {
	r.first = make([]uint32, 1<<16+1)
	n := 0
	for high := range r.first {
		for n < len(r.from) && uint64(r.from[n]) < uint64(high)<<16 {
			n++
		}
		r.first[high] = uint32(n)
	}
}

func (r *ranges4) at(ip netip.Addr) uint32 {
	b := ip.As4()
	address := binary.BigEndian.Uint32(b[:])
	low, high := r.first[address>>16], r.first[address>>16+1]
	for low < high { // the first range that begins behind the address
		if middle := (low + high) / 2; r.from[middle] <= address {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return r.records[low-1]
}

// in are the records of the ranges that have addresses of a prefix.
func (r *ranges4) in(first netip.Addr, bits int) []uint32 {
	b := first.As4()
	from := binary.BigEndian.Uint32(b[:])
	last := from | uint32(1<<(32-bits)-1)
	upTo := func(address uint32) int {
		return sort.Search(len(r.from), func(i int) bool { return r.from[i] > address })
	}
	return r.records[upTo(from)-1 : upTo(last)]
}

// ranges6 are the ranges of IPv6, likewise. The halves of their first addresses are apart: mostly the first ones decide.
type ranges6 struct {
	high, low []uint64
	records   []uint32
	blocks    []uint64 // the high half of each blockRanges-th range, few enough to be in the processor's cache
}

const blockRanges = 64

type address6 struct{ high, low uint64 }

func address6Of(ip netip.Addr) address6 {
	b := ip.As16()
	return address6{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

func (a address6) isBehind(b address6) bool {
	return a.high > b.high || a.high == b.high && a.low > b.low
}

// add begins a range, unless it continues the one before.
func (r *ranges6) add(from address6, record uint32) {
	last := len(r.high) - 1
	switch {
	case last >= 0 && r.high[last] == from.high && r.low[last] == from.low:
		r.records[last] = record
	case last < 0 || r.records[last] != record:
		r.high, r.low, r.records = append(r.high, from.high), append(r.low, from.low), append(r.records, record)
	}
}

func (r *ranges6) index() {
	for i := 0; i < len(r.high); i += blockRanges {
		r.blocks = append(r.blocks, r.high[i])
	}
}

func (r *ranges6) at(ip netip.Addr) uint32 {
	address := address6Of(ip)
	first := (notAbove(r.blocks, address.high) - 1) * blockRanges
	i := first + notAbove(r.high[first:min(first+blockRanges, len(r.high))], address.high) - 1
	if r.high[i] == address.high { // several may have this half
		i = sort.Search(len(r.high), func(i int) bool { return (address6{r.high[i], r.low[i]}).isBehind(address) }) - 1
	}
	return r.records[i]
}

// in are the records of the ranges that have addresses of a prefix.
func (r *ranges6) in(first netip.Addr, bits int) []uint32 {
	from := address6Of(first)
	last := address6{from.high | ^uint64(0)>>min(bits, 64), from.low | ^uint64(0)>>max(bits-64, 0)}
	upTo := func(address address6) int {
		return sort.Search(len(r.high), func(i int) bool { return (address6{r.high[i], r.low[i]}).isBehind(address) })
	}
	return r.records[upTo(from)-1 : upTo(last)]
}

// notAbove is how many of the sorted numbers are not above one.
func notAbove(sorted []uint64, most uint64) int {
	low, high := 0, len(sorted)
	for low < high {
		if middle := int(uint(low+high) / 2); sorted[middle] <= most {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}
