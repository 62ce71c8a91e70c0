package varint

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
)

func TestValuesAreReadAsTheyWereWritten(t *testing.T) {
	b := binary.AppendVarint(nil, math.MinInt64)
	b = binary.AppendUvarint(b, math.MaxUint64)
	b = binary.AppendUvarint(b, math.MaxInt64)
	b = append(b, "abc"...)

	r := Reader{Left: b}
	if signed, unsigned, number := r.Signed(), r.Unsigned(), r.Number(); signed != math.MinInt64 || unsigned != math.MaxUint64 || number != math.MaxInt64 {
		t.Errorf("%d, %d, %d", signed, unsigned, number)
	}
	if taken := r.Take(2); string(taken) != "ab" || string(r.Left) != "c" || r.Failed {
		t.Errorf("%q, %q is left", taken, r.Left)
	}
}

// A value that is missing or out of range makes the reader fail; all further values are zero.
func TestAReaderThatFailsStaysEmpty(t *testing.T) {
	long := []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1, 1, 1, 1}
	for name, read := range map[string]func(*Reader){
		"signed":     func(r *Reader) { r.Signed() },
		"unsigned":   func(r *Reader) { r.Unsigned() },
		"number":     func(r *Reader) { r.Number() },
		"take":       func(r *Reader) { r.Take(15) },
		"byte":       func(r *Reader) { r.Take(14); r.Byte() },
		"take minus": func(r *Reader) { r.Take(-1) },
	} {
		r := Reader{Left: long}
		if read(&r); !r.Failed || r.Number() != 0 || r.Signed() != 0 || r.Take(1) != nil || len(r.Left) != 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	for name, r := range map[string]Reader{
		"a number beyond int64":          {Left: binary.AppendUvarint(nil, math.MaxInt64+1)},
		"a number in more than it needs": {Left: []byte{0x80, 0, 1, 1, 1, 1, 1, 1, 1}, Shortest: true},
	} {
		if r.Number() != 0 || !r.Failed {
			t.Errorf("%s is read", name)
		}
	}
	short := Reader{Left: []byte{1, 2}}
	if short.AtMost(0) != 0 || !short.Failed {
		t.Error("a number that is too large is read")
	}
	if r := (Reader{Left: []byte{3, 'a', 'b', 'c'}}); r.Text(2) != nil || !r.Failed {
		t.Error("a text that is too long is read")
	}
	if r := (Reader{Left: []byte{1}}); r.Failed {
		t.Error("it failed early")
	} else if r.End(); !r.Failed {
		t.Error("the end is where something is left")
	}
}

// For any bytes, numbers are those of encoding/binary, and of the bytes none is read twice or left out.
func FuzzReader(f *testing.F) {
	for _, number := range []uint64{0, 127, 128, 1<<14 - 1, 1 << 14, 1 << 21, 1 << 28, 1 << 35, math.MaxUint64} {
		f.Add(binary.AppendUvarint(nil, number))
		f.Add(append(binary.AppendUvarint(nil, number), make([]byte, 9)...))
	}
	f.Add([]byte{0x80, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		want, n := binary.Uvarint(b)
		for _, shortest := range []bool{false, true} {
			r := Reader{Left: b, Shortest: shortest}
			got := r.Unsigned()
			long := shortest && len(binary.AppendUvarint(nil, want)) < n
			switch {
			case n <= 0 || long:
				if got != 0 || !r.Failed || len(r.Left) > 0 {
					t.Fatalf("%x: %d, %+v", b, got, r)
				}
			case got != want || r.Failed || !bytes.Equal(r.Left, b[n:]):
				t.Fatalf("%x: %d, want %d; %+v", b, got, want, r)
			}
		}

		r := Reader{Left: b}
		if want, n := binary.Varint(b); n > 0 && r.Signed() != want {
			t.Fatalf("%x is not %d", b, want)
		}
	})
}
