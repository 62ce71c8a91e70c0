// Package varint reads values from the front of bytes that a store or a topic returned: numbers as encoding/binary writes
// them, and bytes. Every length is checked, so any input is safe to read. A Reader is used by one goroutine.
package varint

import (
	"encoding/binary"
	"math"
)

// A Reader reads Left from its front. When Left does not contain the value that is asked for, the reader fails: Left is
// empty from then on, and all further values are zero.
type Reader struct {
	Left   []byte
	Failed bool
}

// Fail makes the reader fail, for example when a value is out of its range.
func (r *Reader) Fail() { r.Left, r.Failed = nil, true }

// Signed reads a signed number (zigzag).
func (r *Reader) Signed() int64 {
	v, n := binary.Varint(r.Left)
	return passed(r, v, n)
}

// Unsigned reads an unsigned number of 64 bits.
func (r *Reader) Unsigned() uint64 {
	v, n := binary.Uvarint(r.Left)
	return passed(r, v, n)
}

// passed goes past a number of n bytes; n is 0 or less where there is none.
func passed[N int64 | uint64](r *Reader, v N, n int) N {
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.Left = r.Left[n:]
	return v
}

// Number reads an unsigned number that an int64 can hold; a larger one fails.
func (r *Reader) Number() int64 {
	v := r.Unsigned()
	if v > math.MaxInt64 {
		r.Fail()
		return 0
	}
	return int64(v)
}

// Take reads count bytes. They are a part of Left, not a copy.
func (r *Reader) Take(count int64) []byte {
	if count < 0 || count > int64(len(r.Left)) {
		r.Fail()
		return nil
	}
	taken := r.Left[:count]
	r.Left = r.Left[count:]
	return taken
}
