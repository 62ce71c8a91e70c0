// Package varint reads values from the front of bytes that a log, a store, a topic or a peer returned: numbers as
// encoding/binary writes them, and bytes. Every length is checked, so any input is safe to read. The meaning of values,
// checksums and versions is its callers' business. A Reader is used by one goroutine.
package varint

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// A Reader reads Left from its front. When Left does not contain the value that is asked for, the reader fails: Left is
// empty from then on, and all further values are zero.
type Reader struct {
	Left     []byte
	Failed   bool
	Shortest bool // a number that is written in more bytes than it needs fails
}

// Fail makes the reader fail, for example when a value is out of its range.
func (r *Reader) Fail() { r.Left, r.Failed = nil, true }

// End fails when something is left.
func (r *Reader) End() {
	if len(r.Left) > 0 {
		r.Fail()
	}
}

// Unsigned reads an unsigned number of 64 bits. It reads up to four bytes without a branch on how many they are, because
// a processor predicts that badly.
func (r *Reader) Unsigned() uint64 {
	if len(r.Left) < 8 || r.Shortest {
		return r.anyUnsigned()
	}

	v := binary.LittleEndian.Uint64(r.Left)
	last := bits.TrailingZeros64(^v & 0x80808080_80808080) // the upper bit of the last byte
	if last > 31 {
		return r.anyUnsigned()
	}

	r.Left = r.Left[last/8+1:]
	v &= 1<<last - 1
	return v&0x7f | v>>1&(0x7f<<7) | v>>2&(0x7f<<14) | v>>3&(0x7f<<21)
}

func (r *Reader) anyUnsigned() uint64 {
	v, n := binary.Uvarint(r.Left)
	if n <= 0 || r.Shortest && n > 1 && r.Left[n-1] == 0 {
		r.Fail()
		return 0
	}
	r.Left = r.Left[n:]
	return v
}

// Signed reads a signed number (zigzag).
func (r *Reader) Signed() int64 {
	v := r.Unsigned()
	return int64(v>>1) ^ -int64(v&1)
}

// AtMost reads an unsigned number; a larger one than most fails.
func (r *Reader) AtMost(most int64) int64 {
	v := r.Unsigned()
	if v > uint64(most) {
		*r, v = failed, 0 // not Fail: so the compiler can inline this
	}
	return int64(v)
}

var failed = Reader{Failed: true}

// Number reads an unsigned number that an int64 can hold; a larger one fails.
func (r *Reader) Number() int64 { return r.AtMost(math.MaxInt64) }

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if len(r.Left) == 0 {
		r.Fail()
		return 0
	}
	v := r.Left[0]
	r.Left = r.Left[1:]
	return v
}

// Want reads one byte; another one fails.
func (r *Reader) Want(b byte) {
	if r.Byte() != b {
		r.Fail()
	}
}

// Take reads count bytes. They are a part of Left, not a copy.
func (r *Reader) Take(count int64) []byte {
	if count < 0 || count > int64(len(r.Left)) {
		r.Fail()
		return nil
	}
	taken := r.Left[:count:count]
	r.Left = r.Left[count:]
	return taken
}

// Text reads a length of at most most, and that many bytes. They are a part of Left, not a copy.
func (r *Reader) Text(most int64) []byte { return r.Take(r.AtMost(most)) }
