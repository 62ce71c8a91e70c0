package blocklist

import (
	"fmt"
	"unsafe"
)

// A scratch reads entries one after the other into the same Entry, whose texts share the bytes that were read.
type scratch struct {
	entry  Entry
	fields map[string]string
}

// decode is Decode; its result is valid until the next call and as long as the bytes are.
func (s *scratch) decode(record, value []byte) (*Entry, error) {
	rule, key, err := splitEntryKey(record)
	if err != nil {
		return nil, err
	}
	if s.fields == nil {
		s.fields = map[string]string{}
	}

	clear(s.fields)
	s.entry = Entry{Rule: textOf(rule), Key: textOf(key), Fields: s.fields}
	if err := s.entry.decode(value, true); err != nil {
		return nil, err
	}

	return &s.entry, nil
}

func textOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// decidedAt returns the generation and offset of a value from which an entry was read.
func decidedAt(value []byte) (generation, offset int64) {
	c := newDecoder(value[2:], true)
	c.Take(c.Number()) // the id
	return c.Number(), c.Number()
}

func errDamaged(value []byte) error {
	return fmt.Errorf("%w: %d bytes that no version writes", ErrDamaged, len(value))
}
