package kinesis

import (
	"crypto/md5"
	"slices"
	"testing"
)

// CheckPlace reads a place that a journal may have. Writing what was read gives the same.
func CheckPlace(t *testing.T, text string) {
	p, err := placeOf(text)
	if err != nil {
		return
	}
	if again, err := placeOf(p.ordered(7).ID); err != nil || again != p {
		t.Errorf("%q is read as %v, and that as %v: %v", text, p, again, err)
	}
}

// CheckSplit splits a record, as it is and with a sum that fits. Its parts have no more bytes than it.
func CheckSplit(t *testing.T, data []byte) {
	sum := md5.Sum(data)
	for _, record := range [][]byte{data, slices.Concat(aggregatedMagic, data, sum[:])} {
		users, size := split(record, &everyKey), 0
		for _, user := range users {
			size += len(user)
		}
		if size > len(record) || len(users) > mostUsers {
			t.Errorf("%d bytes have %d in %d parts", len(record), size, len(users))
		}
	}
}
