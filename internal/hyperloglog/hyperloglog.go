// Package hyperloglog estimates how many different values there are, from their hashes: HyperLogLog, with Ertl's improved
// estimator ("New cardinality estimation algorithms for HyperLogLog sketches", 2017). It is unbiased for all numbers of
// values, and needs no tables. Its standard error is that of Error.
//
// A value that is added again changes nothing, and neither does the order of values. The hashes have to be uniform: a client
// that knows them can choose its values for an estimate that is far too low or too high. Nothing here allocates.
package hyperloglog

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// Registers are the memory of an estimate: each has the longest run of zeros, and one, that a hash of its values begins with;
// 0 of none. They are a power of two of at least 256.
type Registers []uint8

// mostRun is more than any run.
const mostRun = 64

// Error is the standard error of an estimate, as a part of it.
func Error(registers int) float64 { return 1.04 / math.Sqrt(float64(registers)) }

// Most is the longest run that a register can have.
func Most(registers int) uint8 { return uint8(64 - bits.TrailingZeros(uint(registers)) + 1) }

// Place is the register of a hash, of so many, and its run.
func Place(hash uint64, registers int) (register int, run uint8) {
	return int(hash & uint64(registers-1)), min(uint8(bits.LeadingZeros64(hash)+1), Most(registers))
}

// Add adds a value by its hash.
func (r Registers) Add(hash uint64) {
	register, run := Place(hash, len(r))
	r[register] = max(r[register], run)
}

// Merge adds the values of other registers, which are as many.
func (r Registers) Merge(other Registers) {
	const high = 0x80808080_80808080
	for len(r) >= 8 && len(other) >= 8 {
		// Eight at a time: no run has the upper bit, so with it there is no carry from one to the next.
		a, b := binary.LittleEndian.Uint64(r), binary.LittleEndian.Uint64(other)
		greater := (((a | high) - b) & high >> 7) * 0xff
		binary.LittleEndian.PutUint64(r, a&greater|b&^greater)
		r, other = r[8:], other[8:]
	}
}

// Estimate is how many different values were added.
func (r Registers) Estimate() float64 {
	var runs Runs
	for _, run := range r {
		runs[run]++
	}
	return runs.Estimate(len(r))
}

// Runs are how many registers have each run.
type Runs [mostRun + 1]int32

// Estimate is how many different values were added to registers with these runs.
func (n *Runs) Estimate(registers int) float64 {
	all, z := float64(registers), 0.0
	for run := int(Most(registers)); run > 0; run-- {
		z = (z + float64(n[run])) / 2
	}
	z += all * sigma(float64(n[0])/all)
	return all * all / (2 * math.Ln2 * z)
}

// sigma is x + x² + 2x⁴ + 4x⁸ + …
func sigma(x float64) float64 {
	if x == 1 {
		return math.Inf(1)
	}
	sum, before := x, 0.0
	for power := 1.0; sum != before; power *= 2 {
		x *= x
		before = sum
		sum += x * power
	}
	return sum
}

// Append appends the registers: each is a byte, and after a zero one stands how many zeros follow it.
func (r Registers) Append(b []byte) []byte {
	for i := 0; i < len(r); i++ {
		b = append(b, r[i])
		if r[i] > 0 {
			continue
		}
		more := 0
		for ; i+1 < len(r) && r[i+1] == 0; i++ {
			more++
		}
		b = binary.AppendUvarint(b, uint64(more))
	}
	return b
}

// Read reads into registers that are zero from the front of bytes, and returns the rest; ok is false if Append did not write
// them.
func (r Registers) Read(b []byte) (rest []byte, ok bool) {
	for i := 0; i < len(r); i++ {
		if len(b) == 0 || b[0] > Most(len(r)) {
			return nil, false
		}
		r[i], b = b[0], b[1:]
		if r[i] > 0 {
			continue
		}
		more, n := binary.Uvarint(b)
		if n <= 0 || more > uint64(len(r)-i-1) {
			return nil, false
		}
		i, b = i+int(more), b[n:]
	}
	return b, true
}
