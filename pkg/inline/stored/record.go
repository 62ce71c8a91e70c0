package stored

import (
	"encoding/binary"
	"errors"

	"weir/internal/varint"
	"weir/pkg/window"
)

// A record is what an attempt has counted at one key, and which other keys it is about:
//
//	1 byte   the version, 1
//	parts    how many, at most maxParts; of each at and cost
//	names    how many, at most maxParts; of each the length and the bytes. In the record by which an attempt is found, the
//	         first is the key that has the parts, or empty, and the others are further keys. Other records have none
//
// Numbers are varints of encoding/binary.
type record struct {
	parts []part
	names []string
}

// A part is one cost of an attempt.
type part struct{ at, cost int64 }

const (
	recordVersion = 1
	maxParts      = 1024
)

func (r *record) bytes() []byte {
	b := binary.AppendUvarint([]byte{recordVersion}, uint64(len(r.parts)))
	for _, p := range r.parts {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(p.at)), uint64(p.cost))
	}
	b = binary.AppendUvarint(b, uint64(len(r.names)))
	for _, name := range r.names {
		b = append(binary.AppendUvarint(b, uint64(len(name))), name...)
	}
	return b
}

var errRecord = errors.New("the bytes of an attempt are corrupt, or of a newer version")

func readRecord(b []byte) (r record, err error) {
	if len(b) == 0 || b[0] != recordVersion {
		return r, errRecord
	}
	in := varint.Reader{Left: b[1:]}
	for range in.AtMost(maxParts) {
		r.parts = append(r.parts, part{in.AtMost(window.MaxTime), in.AtMost(window.Never)})
	}
	for range in.AtMost(maxParts) {
		n := in.AtMost(int64(min(len(in.Left), MaxName)))
		if in.Failed || n > int64(len(in.Left)) {
			return r, errRecord
		}
		r.names = append(r.names, string(in.Left[:n]))
		in.Left = in.Left[n:]
	}
	if in.Failed || len(in.Left) > 0 {
		return r, errRecord
	}
	return r, nil
}
