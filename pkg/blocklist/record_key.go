package blocklist

import (
	"fmt"
	"strings"
)

// manual begins the keys of what people order. No rule has this name.
const manual = "manual"

// RecordKey is the key of an entry's record: the rule's name, a slash, and the key. Names of rules have no slash.
func RecordKey(rule, key string) []byte {
	return append(append([]byte(rule), '/'), key...)
}

// ParseRecordKey splits a record's key. Its errors are ErrDamaged, and ErrNewer for what is no entry.
func ParseRecordKey(record []byte) (rule, key string, err error) {
	if len(record) > MaxBytes {
		return "", "", fmt.Errorf("%w: a record's key of %d bytes", ErrDamaged, len(record))
	}
	rule, key, ok := strings.Cut(string(record), "/")
	switch {
	case ok && (rule == manual || rule == ""):
		return "", "", fmt.Errorf("%w: %.100q is no entry's", ErrNewer, record)
	case !ok || key == "" || len(rule) > maxShort || len(key) > maxKey:
		return "", "", fmt.Errorf("%w: the record's key %.100q", ErrDamaged, record)
	}
	return rule, key, nil
}
