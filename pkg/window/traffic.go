package window

import (
	"encoding/binary"
	"math"

	"github.com/cespare/xxhash/v2"

	"weir/internal/varint"
)

const (
	trafficParts   = 4
	trafficPartFor = 20 * 60_000 // milliseconds
	trafficRows    = 4
	trafficWidth   = 2048
)

// Traffic estimates which share of the requests of the last hour each network sent, by a count-min sketch (Cormode and
// Muthukrishnan, 2005) for each 20 minutes of the requests' time; it keeps four of these, so 60 to 80 minutes. A share is
// never too small. It is too large by 0.05 % of all requests or less on average; by more than 0.25 % for one network in 600,
// and by more than 0.5 % for one in 10,000. Without the seed no client knows which networks count together. The order of
// requests does not matter, but that the four newest parts are kept.
//
// It takes 32 KiB for each part that has requests, and nothing is allocated but with the first request of a part.
type Traffic struct {
	seed  uint64
	parts [trafficParts]trafficPart
}

// A trafficPart has the requests of 20 minutes.
type trafficPart struct {
	number int64 // since 1970
	total  int64
	cells  *[trafficRows][trafficWidth]uint32 // nil before the first request
}

// NewTraffic makes a Traffic without any requests. The seed is that of its hashes.
func NewTraffic(seed uint64) *Traffic { return &Traffic{seed: seed} }

// Network is the number of a network in the sketch; it is never 0.
func (t *Traffic) Network(key []byte) uint64 {
	var digest xxhash.Digest
	digest.ResetWithSeed(t.seed)
	digest.Write(key)
	return max(1, digest.Sum64())
}

// Add counts requests at an instant in Unix milliseconds, of a network; 0 is none that is known.
func (t *Traffic) Add(network uint64, at, requests int64) {
	if at < 0 || requests < 1 {
		return
	}
	number := at / trafficPartFor
	p := &t.parts[number%trafficParts]
	switch {
	case p.number > number:
		return
	case p.cells == nil:
		p.number, p.cells = number, &[trafficRows][trafficWidth]uint32{}
	case p.number < number:
		*p.cells = [trafficRows][trafficWidth]uint32{}
		p.number, p.total = number, 0
	}

	requests = min(requests, math.MaxUint32)
	p.total += requests
	if network == 0 {
		return
	}
	for row := range p.cells {
		cell := &p.cells[row][cellOf(network, row)]
		*cell = uint32(min(int64(*cell)+requests, math.MaxUint32))
	}
}

func cellOf(network uint64, row int) uint64 {
	return (network + uint64(row)*(network>>32|1)) >> 8 % trafficWidth
}

// Share is which share of the requests of the hour before an instant a network sent, and how many requests these were. Where
// the instant is before all that is kept, it is the hour that is kept.
func (t *Traffic) Share(network uint64, at int64) (share float64, of int64) {
	number, newest := at/trafficPartFor, int64(0)
	for i := range t.parts {
		newest = max(newest, t.parts[i].number)
	}
	if number <= newest-trafficParts {
		number = newest
	}

	var sums [trafficRows]int64
	for i := range t.parts {
		p := &t.parts[i]
		if p.cells == nil || p.number > number || p.number <= number-trafficParts {
			continue
		}
		of += p.total
		for row := range sums {
			sums[row] += int64(p.cells[row][cellOf(network, row)])
		}
	}
	if of == 0 {
		return 0, 0
	}
	return float64(min(sums[0], sums[1], sums[2], sums[3])) / float64(of), of
}

// The bytes of a Traffic; numbers are varints of encoding/binary without a sign:
//
//	seed     8 bytes, little endian
//	parts    how many; for each of them its number, its requests, and the cells of its rows:
//	         each is a number, and after a zero stands how many zeros follow it in the row

// Append appends the bytes.
func (t *Traffic) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, t.seed)
	parts := uint64(0)
	for i := range t.parts {
		if t.parts[i].cells != nil {
			parts++
		}
	}

	b = binary.AppendUvarint(b, parts)
	for i := range t.parts {
		p := &t.parts[i]
		if p.cells == nil {
			continue
		}
		b = binary.AppendUvarint(b, uint64(p.number))
		b = binary.AppendUvarint(b, uint64(p.total))
		for row := range p.cells {
			b = appendCells(b, p.cells[row][:])
		}
	}
	return b
}

func appendCells(b []byte, cells []uint32) []byte {
	for i := 0; i < len(cells); i++ {
		b = binary.AppendUvarint(b, uint64(cells[i]))
		if cells[i] > 0 {
			continue
		}
		more := 0
		for ; i+1 < len(cells) && cells[i+1] == 0; i++ {
			more++
		}
		b = binary.AppendUvarint(b, uint64(more))
	}
	return b
}

// ReadTraffic reads what Append wrote. The error is ErrCorrupt.
func ReadTraffic(b []byte) (*Traffic, error) {
	c, t := &varint.Reader{Left: b}, &Traffic{}
	if seed := c.Take(8); seed != nil {
		t.seed = binary.LittleEndian.Uint64(seed)
	}
	for range c.AtMost(trafficParts) {
		p := trafficPart{number: c.AtMost(MaxTime / trafficPartFor), total: c.Number(), cells: &[trafficRows][trafficWidth]uint32{}}
		for row := range p.cells {
			readCells(c, p.cells[row][:])
		}
		if t.parts[p.number%trafficParts].cells != nil {
			c.Fail()
		}
		if c.Failed {
			return nil, ErrCorrupt
		}
		t.parts[p.number%trafficParts] = p
	}
	if c.End(); c.Failed {
		return nil, ErrCorrupt
	}
	return t, nil
}

func readCells(c *varint.Reader, cells []uint32) {
	for i := 0; i < len(cells) && !c.Failed; i++ {
		if cells[i] = uint32(c.AtMost(math.MaxUint32)); cells[i] == 0 {
			i += int(c.AtMost(int64(len(cells) - i - 1)))
		}
	}
}
