package backtest

import "testing"

// A peak a little beyond its limit does not look like one that keeps it.
func TestHowFarAPeakIsBeyondItsLimit(t *testing.T) {
	for peak, want := range map[int64]string{101: "+1%", 104: "+4%", 199: "+99%", 200: "2×", 1230: "12×"} {
		b := &Blocked{Peak: peak, allowed: 100}
		if got := b.times(); got != want {
			t.Errorf("%d of 100: %q, want %q", peak, got, want)
		}
	}
}
