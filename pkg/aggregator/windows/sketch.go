package windows

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/cespare/xxhash/v2"

	"weir/internal/varint"
)

const (
	sketchBits      = 10
	sketchRegisters = 1 << sketchBits
	sketchMost      = 64 - sketchBits + 1 // that a register can have

	// sketchRoom makes an estimate an upper bound: it is three times the standard error, 1.04/sqrt(registers) = 3.25 %.
	// So 998 of 1,000 estimates with it are not below the number of keys, and as many are not more than a fifth above.
	sketchRoom = 1.1
)

// A sketch counts different keys, as HyperLogLog does: each register has the longest run of zeros, and one, that a hash of
// its keys begins with. A key that is added again changes nothing.
type sketch [sketchRegisters]uint8

// add adds a key. Without the seed no client knows which keys it would have to send for a large estimate.
func (s *sketch) add(key string, seed uint64) {
	var digest xxhash.Digest
	digest.ResetWithSeed(seed)
	digest.WriteString(key)
	hash := digest.Sum64()
	register := &s[hash%sketchRegisters]
	if run := uint8(min(bits.LeadingZeros64(hash)+1, sketchMost)); run > *register {
		*register = run
	}
}

// keys estimates how many different keys were added, by Ertl's improved estimator ("New cardinality estimation algorithms
// for HyperLogLog sketches", 2017). It is unbiased for all numbers of keys, and needs no tables.
func (s *sketch) keys() float64 {
	var with [sketchMost + 1]float64
	for _, run := range s {
		with[run]++
	}

	z := 0.0
	for run := sketchMost; run > 0; run-- {
		z = (z + with[run]) / 2
	}
	z += sketchRegisters * sigma(with[0]/sketchRegisters)
	return sketchRegisters * sketchRegisters / (2 * math.Ln2 * z)
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

// append appends the registers: each is a byte, and after a zero one stands how many zeros follow it.
func (s *sketch) append(b []byte) []byte {
	for i := 0; i < len(s); i++ {
		b = append(b, s[i])
		if s[i] > 0 {
			continue
		}
		more := 0
		for ; i+1 < len(s) && s[i+1] == 0; i++ {
			more++
		}
		b = binary.AppendUvarint(b, uint64(more))
	}
	return b
}

func (s *sketch) read(c *varint.Reader) {
	for i := 0; i < len(s) && !c.Failed; i++ {
		s[i] = c.Byte()
		if s[i] > sketchMost {
			c.Fail()
		}
		if s[i] == 0 {
			i += int(c.AtMost(int64(len(s) - i - 1)))
		}
	}
}
