package stored

import (
	"encoding/binary"
	"errors"
	"slices"

	"weir/internal/varint"
	"weir/pkg/window"
)

// A record is what an attempt has counted at one key, and which other keys it is about:
//
//	1 byte   the version, 1; or 2 if a part has ended
//	parts    how many, at most maxParts; of each at and cost, and in version 2 whether it has ended: 0 or 1
//	names    how many, at most maxParts; of each the length and the bytes. In the record by which an attempt is found, the
//	         first is the key that has the parts, or empty, and the others are further keys. Other records have none
//
// Numbers are varints of encoding/binary.
type record struct {
	parts []part
	names []string
}

// A part is one cost of an attempt. It has ended once it was settled, if its rule has limits at once.
type part struct {
	at, cost int64
	ended    bool
}

const (
	recordVersion      = 1
	recordVersionEnded = 2
	maxParts           = 1024
)

func (r *record) bytes() []byte {
	version := byte(recordVersion)
	if slices.ContainsFunc(r.parts, func(p part) bool { return p.ended }) {
		version = recordVersionEnded
	}
	b := binary.AppendUvarint([]byte{version}, uint64(len(r.parts)))
	for _, p := range r.parts {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(p.at)), uint64(p.cost))
		switch {
		case p.ended:
			b = append(b, 1)
		case version == recordVersionEnded:
			b = append(b, 0)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(r.names)))
	for _, name := range r.names {
		b = append(binary.AppendUvarint(b, uint64(len(name))), name...)
	}
	return b
}

var errRecord = errors.New("the bytes of an attempt are corrupt, or of a newer version")

func readRecord(b []byte) (r record, err error) {
	if len(b) == 0 || b[0] != recordVersion && b[0] != recordVersionEnded {
		return r, errRecord
	}
	in := varint.Reader{Left: b[1:]}
	for range in.AtMost(maxParts) {
		p := part{at: in.AtMost(window.MaxTime), cost: in.AtMost(window.Never)}
		if b[0] == recordVersionEnded {
			p.ended = in.AtMost(1) == 1
		}
		r.parts = append(r.parts, p)
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
