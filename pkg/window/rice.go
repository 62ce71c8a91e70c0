package window

import (
	"encoding/binary"
	"math/bits"
)

// Rice code writes numbers of about the same size with two to three bits more than their common size: of each the high
// bits in unary, then the low ones as they are. Bits fill bytes from the lowest.

type riceWriter struct {
	b    []byte
	bits uint64 // not yet in b
	n    int    // how many
	low  int    // the parameter: how many low bits
}

// newRiceWriter begins a code that is shortest for numbers around mean.
func newRiceWriter(b []byte, mean int64) riceWriter {
	low := max(0, bits.Len64(uint64(mean))-1)
	return riceWriter{b: append(b, byte(low)), low: low}
}

func (w *riceWriter) write(v int64) {
	const most = aheadBits - timeBits
	high := v >> w.low
	for ; high > most; high -= most {
		w.put(1<<most-1, most)
	}
	lows := uint64(v) & (1<<w.low - 1)
	w.put(1<<high-1|lows<<(high+1), int(high)+1+w.low)
}

// put writes n bits, at most aheadBits; v has no others.
func (w *riceWriter) put(v uint64, n int) {
	w.bits |= v << w.n
	w.n += n
	b := binary.LittleEndian.AppendUint64(w.b, w.bits)
	w.b = b[:len(w.b)+w.n/8]
	w.bits >>= w.n &^ 7
	w.n &= 7
}

func (w *riceWriter) close() []byte {
	if w.n > 0 {
		w.b = append(w.b, byte(w.bits))
	}
	return w.b
}

type riceReader struct {
	b   []byte
	pos int // in bits
	low int
	bad bool
}

func newRiceReader(b []byte) riceReader {
	if len(b) == 0 || b[0] > timeBits {
		return riceReader{bad: true}
	}
	return riceReader{b: b[1:], low: int(b[0])}
}

func (r *riceReader) read() int64 {
	var high int64
	for {
		ones := bits.TrailingZeros64(^r.ahead())
		high += int64(min(ones, aheadBits))
		if ones < aheadBits {
			r.pos += ones + 1
			break
		}
		r.pos += aheadBits
	}

	v := high<<r.low | int64(r.ahead()&(1<<r.low-1))
	r.pos += r.low
	r.bad = r.bad || r.pos > 8*len(r.b) || high > MaxTime>>r.low
	return v
}

// aheadBits is how many bits ahead can be relied on.
const aheadBits = 56

// ahead is the bits from the position on; beyond the end they are 0.
func (r *riceReader) ahead() uint64 {
	at := min(r.pos/8, len(r.b))
	if at+8 <= len(r.b) {
		return binary.LittleEndian.Uint64(r.b[at:]) >> (r.pos % 8)
	}
	var rest [8]byte
	copy(rest[:], r.b[at:])
	return binary.LittleEndian.Uint64(rest[:]) >> (r.pos % 8)
}

// rest is what follows the code.
func (r *riceReader) rest() []byte { return r.b[(r.pos+7)/8:] }
