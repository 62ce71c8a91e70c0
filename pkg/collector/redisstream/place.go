package redisstream

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"weir/pkg/collector/ordered"
)

// An id is the ID of an entry. They grow.
type id struct{ ms, seq uint64 }

// parseID reads an ID as Redis writes it: ms-seq.
func parseID(text string) (id, bool) {
	first, second, ok := strings.Cut(text, "-")
	ms, err := strconv.ParseUint(first, 10, 64)
	seq, also := strconv.ParseUint(second, 10, 64)
	return id{ms, seq}, ok && err == nil && also == nil
}

func (a id) String() string {
	return strconv.FormatUint(a.ms, 10) + "-" + strconv.FormatUint(a.seq, 10)
}

func (a id) less(b id) bool {
	_, borrow := bits.Sub64(a.seq, b.seq, 0)
	_, borrow = bits.Sub64(a.ms, b.ms, borrow)
	return borrow == 1
}

// byClock reports whether an ID is likely the time at which its entry was added: one after 2001.
func (a id) byClock() bool { return a.ms >= 1e12 }

// A place is a place in a stream. A loose one was found by its ID: its position may be too low, until the end of the
// stream is reached.
type place struct {
	position int64
	id       id
	loose    bool
}

const looseSign = "~"

func (p place) ordered() ordered.Place {
	text := p.id.String()
	if p.loose {
		text = looseSign + text
	}
	return ordered.Place{Position: p.position, ID: text}
}

func placeOf(o ordered.Place) (place, error) {
	text, loose := strings.CutPrefix(o.ID, looseSign)
	at, ok := parseID(text)
	if !ok {
		return place{}, fmt.Errorf("%q is not the ID of an entry", o.ID)
	}
	return place{o.Position, at, loose}, nil
}

// line returns the line or the record in an entry.
func (s *stream) line(fields map[string]any) []byte {
	texts := make(map[string]string, len(fields))
	for name, value := range fields {
		texts[name], _ = value.(string)
	}
	if value, has := texts[s.field]; has && s.field != "" {
		return []byte(value)
	}
	if len(texts) == 1 && s.field == "" {
		for _, value := range texts {
			return []byte(value)
		}
	}
	record, _ := json.Marshal(texts) // it is made of texts
	return record
}
