package inline

import (
	"crypto/rand"
	"encoding/hex"
)

// An ID names an attempt: 48 bits of time and 80 random ones, unless it is that of a request.
type ID [16]byte

// makeNew is a method so that the ID is where it belongs from the start, and allocates nothing in any build.
func (id *ID) makeNew(now int64) {
	_, _ = rand.Read(id[6:]) // never fails
	for i := range 6 {
		id[i] = byte(now >> (40 - 8*i))
	}
}

// NewID makes the ID of an attempt that counts nothing, and that cannot be settled by it.
func NewID(now int64) (id ID) {
	id.makeNew(now)
	return id
}

// String is the ID as users see it.
func (id ID) String() string {
	var text [2 * len(id)]byte
	hex.Encode(text[:], id[:])
	return string(text[:])
}

// ParseID reads an ID.
func ParseID(text string) (id ID, err error) {
	if len(text) != hex.EncodedLen(len(id)) {
		return id, ErrUnknown
	}
	if _, err := hex.Decode(id[:], []byte(text)); err != nil {
		return id, ErrUnknown
	}
	return id, nil
}

// leaseWord is before an ID in the field that edges write into their logs.
const leaseWord = "lease "

// LeaseMark is how an enforcer names, at the end of the field for logs, an attempt whose request ends with its line.
func LeaseMark(id ID) string { return leaseWord + id.String() }

// LeaseIn is the ID in a text that ends with a LeaseMark.
func LeaseIn(text string) (id ID, ok bool) {
	at := len(text) - hex.EncodedLen(len(id))
	if at < len(leaseWord) || text[at-len(leaseWord):at] != leaseWord {
		return id, false
	}
	id, err := ParseID(text[at:])
	return id, err == nil
}
