package uncounted_test

import (
	"testing"

	"weir/internal/uncounted"
)

// Requests that were seen before are no loss, whatever their share, and they do not hide that no other request counts.
func TestRequestsThatWereSeenAreNoLoss(t *testing.T) {
	for _, c := range []struct {
		requests int64
		by       map[string]int64
		lost     int64
	}{
		{10, map[string]int64{"seen": 10}, 0},
		{10, map[string]int64{"seen": 9, "match": 1}, 1},
		{10, map[string]int64{"seen": 5, "match": 4}, 0},
		{10, map[string]int64{"seen": 5, "format": 1}, 1},
		{10, map[string]int64{"inline": 10}, 0},
	} {
		lost, reasons := uncounted.Lost(c.requests, c.by)
		if lost != c.lost || reasons["seen"] > 0 {
			t.Errorf("%v of %d: %d are lost, %v, want %d", c.by, c.requests, lost, reasons, c.lost)
		}
	}
}
