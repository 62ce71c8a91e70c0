package blocklist

import (
	"bytes"
	"errors"
	"fmt"
)

// A Record is one record of the topic blocklist. At most one of the three is set; none is for a record without a value.
type Record struct {
	Entry *Entry
	Order *Order
	Mark  *Mark
}

// ErrMark refuses an impossible watermark.
var ErrMark = errors.New("not a mark")

// DecodeRecord reads a record, completely or not at all. A nil value (not an empty one) means that the key can be
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
	case bytes.HasPrefix(key, []byte(ManualRule+"/")):
		r.Order, err = decodeOrder(key, value)
	case bytes.HasPrefix(key, []byte(markPrefix)):
		r.Mark, err = decodeMark(key, value)
	default:
		r.Entry, err = Decode(key, value)
	}

	return r, err
}
