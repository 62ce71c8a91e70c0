package kinesis

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"weir/pkg/collector/ordered"
)

const longestSequence = 129 // digits

// A place is a place in a shard: after a record, or before those that came at a time or later. The zero place is before
// the first record.
type place struct {
	sequence string
	part     int // of an aggregated record, so many user records were read; 0 for all
	ms       int64
}

const timeSign = "@"

func placeAt(at time.Time) place { return place{ms: max(1, at.UnixMilli())} }

func (p place) ordered(position int64) ordered.Place {
	id := p.sequence
	switch {
	case p.ms > 0:
		id = timeSign + strconv.FormatInt(p.ms, 10)
	case p.part > 0:
		id += "+" + strconv.Itoa(p.part)
	}
	return ordered.Place{Position: position, ID: id}
}

func placeOf(id string) (p place, err error) {
	if id == "" {
		return p, nil
	}
	if text, is := strings.CutPrefix(id, timeSign); is {
		p.ms, err = strconv.ParseInt(text, 10, 64)
		if err != nil || p.ms <= 0 {
			return place{}, fmt.Errorf("%q is not a time in a shard", id)
		}
		return p, nil
	}
	sequence, part, within := strings.Cut(id, "+")
	if within {
		p.part, err = strconv.Atoi(part)
	}
	if err != nil || within && (p.part < 1 || p.part > mostUsers) || !isSequence(sequence) {
		return place{}, fmt.Errorf("%q is not a place in a shard", id)
	}
	p.sequence = sequence
	return p, nil
}

// isSequence reports whether a text is a sequence number as the server writes it.
func isSequence(text string) bool {
	return text != "" && len(text) <= longestSequence && strings.Trim(text, "0123456789") == "" && (text == "0" || text[0] != '0')
}
