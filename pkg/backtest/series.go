package backtest

import "slices"

// A series counts by time in bars of equal width, up to a fixed number of bars. When the span grows beyond that, the
// bars become as wide as the next step of barSteps, a multiple of the step before. So a series keeps its size however
// long it counts.
type series struct {
	step  int   // of barSteps
	first int64 // the number, since 1970, of the first bar
	bars  []bar
	most  int // bars
}

// A bar contains the counts of one part of the time.
type bar struct {
	requests, refused int64
	peak              int64 // the most hits in a limit's window at a time; 0 if that is not watched
}

// barSteps are the widths of bars in milliseconds: 100 ms to 5,200 weeks, so that all years are few bars.
var barSteps = func() []int64 {
	steps := []int64{1, 5, 15, 30, 60, 300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 7 * 86400, 28 * 86400, 364 * 86400, 3640 * 86400, 36400 * 86400}
	for i := range steps {
		steps[i] *= 1000
	}
	return append([]int64{100, 500}, steps...)
}()

// stepOfSeconds is the place of a second among barSteps. Logs are not more precise.
const stepOfSeconds = 2

func newSeries(most int) *series { return &series{step: stepOfSeconds, most: most} }

// width is the width of a bar in milliseconds.
func (s *series) width() int64 { return barSteps[s.step] }

// start is the time at which the i-th bar begins.
func (s *series) start(i int) int64 { return (s.first + int64(i)) * s.width() }

// at is the bar of an instant.
func (s *series) at(at int64) *bar {
	i := at/s.width() - s.first
	if i < 0 || i >= int64(len(s.bars)) {
		i = s.reach(at)
	}
	return &s.bars[i]
}

// reach makes the series span the instant and returns the index of its bar.
func (s *series) reach(at int64) int64 {
	if len(s.bars) == 0 {
		s.first, s.bars = at/s.width(), append(s.bars, bar{})
		return 0
	}

	// Wider bars first, so that a time far away does not make millions of narrow ones.
	for s.lengthWith(at) > int64(s.most) && s.step < len(barSteps)-1 {
		s.widen()
	}
	number := at / s.width()
	if before := s.first - number; before > 0 {
		s.bars = append(make([]bar, before, before+int64(len(s.bars))), s.bars...)
		s.first = number
	}

	for number >= s.first+int64(len(s.bars)) {
		s.bars = append(s.bars, bar{})
	}
	return number - s.first
}

// lengthWith is the number of bars including that of the instant.
func (s *series) lengthWith(at int64) int64 {
	number := at / s.width()
	return max(number, s.first+int64(len(s.bars))-1) - min(number, s.first) + 1
}

// widen moves one step up.
func (s *series) widen() {
	times := barSteps[s.step+1] / barSteps[s.step]
	first := s.first / times
	wider := s.bars[:0] // a bar keeps its place or moves to an earlier one
	for i, b := range s.bars {
		if number := (s.first + int64(i)) / times; number-first >= int64(len(wider)) {
			wider = append(wider, b)
		} else {
			wider[number-first].add(b)
		}
	}

	clear(s.bars[len(wider):])
	s.bars, s.first = wider, first
	s.step++
}

// widenTo moves up to the step of another series.
func (s *series) widenTo(step int) {
	for s.step < step && len(s.bars) > 0 {
		s.widen()
	}
	s.step = max(s.step, step)
}

// passed is how many requests were not refused.
func (b bar) passed() int64 { return b.requests - b.refused }

// clone is a copy.
func (s *series) clone() *series {
	copied := *s
	copied.bars = slices.Clone(s.bars)
	return &copied
}

func (b *bar) add(other bar) {
	b.requests += other.requests
	b.refused += other.refused
	b.peak = max(b.peak, other.peak)
}
