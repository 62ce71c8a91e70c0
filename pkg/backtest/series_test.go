package backtest

import (
	"math/rand/v2"
	"testing"
)

// Each bar contains the counts of its span, whatever the order of the hits, and there are never too many bars.
func TestSeriesCountsAsItsSpanGrows(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		s := newSeries(2 + random.IntN(300))
		at := random.Int64N(1 << 42)
		var all []int64
		for range random.IntN(200) {
			all = append(all, at)
			s.at(at).add(bar{1, at % 2, at % 7})
			if at += random.Int64N(1<<random.IntN(34)+1) - 1<<random.IntN(20); at < 0 || at >= 1<<42 {
				at = 0
			}
			if len(s.bars) > max(s.most, 157) { // 157 of the widest span all the time that can be counted
				t.Fatalf("%d bars, at most %d", len(s.bars), s.most)
			}
		}
		checkSeries(t, s, all)
		s.widenTo(len(barSteps) - 1)
		checkSeries(t, s, all)
	}
}

func checkSeries(t *testing.T, s *series, all []int64) {
	t.Helper()
	wanted := make([]bar, len(s.bars))
	for _, at := range all {
		wanted[at/s.width()-s.first].add(bar{1, at % 2, at % 7})
	}
	for i := range wanted {
		if s.bars[i] != wanted[i] {
			t.Fatalf("bar %d of %d: %v, want %v", i, len(wanted), s.bars[i], wanted[i])
		}
	}
}

func TestBarStepsHoldOneAnother(t *testing.T) {
	for i := 1; i < len(barSteps); i++ {
		if barSteps[i]%barSteps[i-1] != 0 {
			t.Errorf("%d does not hold %d a whole number of times", barSteps[i], barSteps[i-1])
		}
	}
}
