package backtest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// A textbook is a sliding log in its simplest form: it keeps all hits of a key in a list and counts through it. It
// shares nothing with pkg/window.
type textbook struct {
	limits   []textbookLimit
	duration time.Duration // of the first block
	then     []time.Duration
	forget   time.Duration
}

type textbookLimit struct {
	hits int
	per  time.Duration
	text string
}

var usualLimits = []textbookLimit{{10, time.Minute, "10/min"}, {100, time.Hour, "100/hour"}, {1000, 24 * time.Hour, "1000/day"}}

// A line is one request: its client and its time.
type line struct {
	key string
	at  time.Time
}

// readLines reads logs in the combined format, as simply as can be.
func readLines(t *testing.T, text string) []line {
	t.Helper()
	var lines []line
	for _, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		key, rest, _ := strings.Cut(l, " ")
		_, rest, _ = strings.Cut(rest, "[")
		when, _, _ := strings.Cut(rest, "]")
		at, err := time.Parse("02/Jan/2006:15:04:05 -0700", when)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line{key, at})
	}
	return lines
}

// run returns the blocked keys, sorted as in a report, and the number of all refused requests.
func (b *textbook) run(lines []line) (blocked []Blocked, refused int64) {
	byKey := map[string][]time.Time{}
	for _, l := range lines {
		byKey[l.key] = append(byKey[l.key], l.at)
	}
	for key, times := range byKey {
		slices.SortStableFunc(times, time.Time.Compare)
		if one := b.runKey(key, times); one.Blocks > 0 {
			blocked = append(blocked, one)
			refused += one.Refused
		}
	}
	slices.SortFunc(blocked, func(a, b Blocked) int { return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Key, b.Key)) })
	return blocked, refused
}

func (b *textbook) runKey(key string, times []time.Time) Blocked {
	one := Blocked{Key: key, Requests: int64(len(times))}
	var window []time.Time // since the last block's end
	var until time.Time
	level := 0
	var first textbookLimit
	for _, at := range times {
		if at.Before(until) {
			one.Refused++
			continue
		}
		window = append(window, at)
		limit, broken := b.broken(window, at)
		if !broken {
			continue
		}
		if one.Blocks == 0 {
			one.First, one.Limit, first = Instant(at.UnixMilli()), limit.text, limit
		}
		one.Blocks++
		one.Refused++
		if level++; level > 1 && at.Sub(until) >= b.forget {
			level = 1
		}
		lasts := b.duration
		if level > 1 && len(b.then) > 0 {
			lasts = b.then[min(level-2, len(b.then)-1)]
		}
		until, window = at.Add(lasts), nil
	}
	if one.Blocks > 0 {
		one.Peak = textbookPeak(times, first.per)
	}
	return one
}

func (b *textbook) broken(window []time.Time, at time.Time) (textbookLimit, bool) {
	for _, limit := range b.limits {
		count := 0
		for i := len(window) - 1; i >= 0 && window[i].After(at.Add(-limit.per)); i-- {
			count++
		}
		if count > limit.hits {
			return limit, true
		}
	}
	return textbookLimit{}, false
}

func textbookPeak(times []time.Time, per time.Duration) (peak int64) {
	from := 0
	for to, at := range times {
		for !times[from].After(at.Add(-per)) {
			from++
		}
		peak = max(peak, int64(to-from+1))
	}
	return peak
}

// compareBlocked fails with the first differences.
func compareBlocked(t *testing.T, got, wanted []Blocked) {
	t.Helper()
	if len(got) != len(wanted) {
		t.Errorf("%d keys blocked, want %d", len(got), len(wanted))
	}
	faults := 0
	for i := range min(len(got), len(wanted)) {
		g, w := fmt.Sprintf("%+v", bare(got[i])), fmt.Sprintf("%+v", bare(wanted[i]))
		if g != w {
			t.Errorf("blocked %d:\n got %s\nwant %s", i, g, w)
			if faults++; faults > 5 {
				return
			}
		}
	}
}

// bare is a blocked key with only the fields of its JSON form.
func bare(b Blocked) Blocked {
	b.allowed, b.per, b.timeline = 0, 0, nil
	return b
}
