package varint

import (
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
		"take minus": func(r *Reader) { r.Take(-1) },
	} {
		r := Reader{Left: long}
		if read(&r); !r.Failed || r.Number() != 0 || r.Signed() != 0 || r.Take(1) != nil || len(r.Left) != 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	r := Reader{Left: binary.AppendUvarint(nil, math.MaxInt64+1)}
	if r.Number() != 0 || !r.Failed {
		t.Error("a number beyond int64 is read")
	}
}
