package blocklist

import (
	"bytes"
	"errors"
	"fmt"
)

// A Record is one record of the topic blocklist: one of the three, or none of them for a record without a value.
type Record struct {
	Entry *Entry
	Order *Order
	Mark  *Mark
}

// ErrMark is what a mark is refused with that cannot be.
var ErrMark = errors.New("not a mark")

// DecodeRecord reads a record, all of it or nothing. A record whose value is nil (not: empty) says that its key can be
// forgotten. The errors are ErrNewer and ErrDamaged.
func DecodeRecord(key, value []byte) (Record, error) {
	if len(key) == 0 || len(key) > MaxBytes {
		return Record{}, fmt.Errorf("%w: a record's key of %d bytes", ErrDamaged, len(key))
	}
	if value == nil {
		return Record{}, nil
	}

	var r Record
	var err error
	switch {
	case bytes.HasPrefix(key, []byte(manual+"/")):
		r.Order, err = decodeOrder(key, value)
	case bytes.HasPrefix(key, []byte(markPrefix)):
		r.Mark, err = decodeMark(key, value)
	default:
		r.Entry, err = Decode(key, value)
	}

	return r, err
}
