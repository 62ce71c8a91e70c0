package blocklist

import (
	"bytes"
	"fmt"
)

// ManualRule is the rule of manual entries, and begins the keys of their records. No rule has this name.
const ManualRule = "manual"

// RecordKey is the key of an entry's record: the rule's name, a slash, and the key. Names of rules have no slash.
func RecordKey(rule, key string) []byte {
	return append(append([]byte(rule), '/'), key...)
}

// ParseRecordKey splits a record's key. Its errors are ErrDamaged, and ErrNewer for a key of something else than an
// entry.
func ParseRecordKey(record []byte) (rule, key string, err error) {
	r, k, err := splitEntryKey(record)
	return string(r), string(k), err
}

func splitEntryKey(record []byte) (rule, key []byte, err error) {
	if len(record) > MaxBytes {
		return nil, nil, fmt.Errorf("%w: a record's key of %d bytes", ErrDamaged, len(record))
	}
	rule, key, ok := bytes.Cut(record, []byte{'/'})
	switch {
	case ok && (string(rule) == ManualRule || len(rule) == 0):
		return nil, nil, fmt.Errorf("%w: %.100q is not an entry's", ErrNewer, record)
	case !ok || len(key) == 0 || len(rule) > maxShort || len(key) > maxKey:
		return nil, nil, fmt.Errorf("%w: the record's key %.100q", ErrDamaged, record)
	}
	return rule, key, nil
}
