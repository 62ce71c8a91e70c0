package backtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"weir/pkg/rule"
)

// Suggestions are limits that are proposed from logs. Its JSON form is the documented output of `weir suggest --output
// json`.
type Suggestions struct {
	Requests int64            `json:"requests"`           // read
	Filtered int64            `json:"filtered,omitempty"` // requests that only of the source does not select
	Unread   map[string]int64 `json:"unread"`             // lines that could not be read, by reason
	From     *Instant         `json:"from"`               // of the oldest request read; nil when there is none
	To       *Instant         `json:"to"`
	Rules    []SuggestedRule  `json:"rules"`
	Faults   []string         `json:"faults"` // errors of inputs, each with its input

	report *Report // of the suggested limits
}

// A SuggestedRule is a rule with the limits that are proposed for it, and what they would have done.
type SuggestedRule struct {
	Rule     string   `json:"rule"`
	Key      string   `json:"key"`  // the counted key, as in the rules
	Keys     int64    `json:"keys"` // distinct keys that were hit
	Requests int64    `json:"requests"`
	Windows  []Window `json:"windows"`
	Limits   []string `json:"limits"` // proposed; empty if nothing was counted

	Refused int64     `json:"refused"` // requests in blocks, with these limits and the rule's own block
	Blocked []Blocked `json:"blocked"` // keys that would have broken one of them, by First, then Key

	Inline   bool `json:"inline,omitempty"`   // the rule is decided inline, and left out here
	Distinct bool `json:"distinct,omitempty"` // the rule counts different values, and is left out here
	Share    bool `json:"share,omitempty"`    // the rule limits a share, and is left out here
}

// A Window is how many hits the keys of a rule have in any span of one length: the peaks of half of the keys, of 99 and
// 99.9 of 100 are at most these, and the most is that of one key.
type Window struct {
	Per       string `json:"per"`
	Half      int64  `json:"half"`
	P99       int64  `json:"p99"`
	P999      int64  `json:"p99_9"`
	Most      int64  `json:"most"`
	Suggested int64  `json:"suggested"` // hits
	Over      int64  `json:"over"`      // keys with a higher peak

	span time.Duration
}

// How limits are proposed.
const (
	outOfLine    = 20 // only peaks of one key in so many can be out of line
	widerThan    = 3  // a gap is one if the higher peak is more than so many times the lower one
	headroom     = 2  // without a gap, the limit is so many times the highest peak
	leastLimit   = 10
	mostSuggests = 8 // lengths of windows
	partsOf      = 3 // a window is measured if the logs have at least one of so many parts of its length
)

var errReadOnce = errors.New("the logs are read several times, and standard input can be read once only; name files")

// Suggest proposes limits for the windows that the rules have, from the peaks of their keys in the logs. It reads the
// logs once for each length of a window, and once more for what the limits would have done.
//
// The peaks of most keys lie close together, and those of programs that ask for too much lie far above. So of the peaks
// in the top twentieth, Suggest looks for the widest gap between two that follow each other. Is the higher one more than
// three times the lower one, then the limit lies between, at the same ratio to both. Otherwise it is twice the highest
// peak. It is rounded up as far as it stays in the gap, and is at least 10. Limits that others make useless are left
// out, and so are windows of more than three times the length of the logs, but for the shortest one. Nothing shows
// whether a key far above is an offender or a good customer: that is for people to judge.
//
// Memory is that of Run, and grows with the requests in the longest window: for each key with more than one hit the
// instants of its window are kept. Options that are for reports only have no effect.
func Suggest(ctx context.Context, c Config) (*Suggestions, error) {
	if slices.ContainsFunc(c.Inputs, func(in Input) bool { return in.Reader != nil }) {
		return nil, errReadOnce
	}
	if c.Rules == nil || len(c.Rules.Rules) == 0 {
		return nil, errNoRules
	}
	c.Against, c.Algorithms, c.FailIf, c.Never, c.Timelines = nil, nil, Condition{}, nil, false

	spans := spansOf(c.Rules)
	if len(spans) > mostSuggests {
		return nil, fmt.Errorf("the rules have windows of %d lengths, and the logs are read once for each: name rules with at most %d", len(spans), mostSuggests)
	}
	windows := make([][]Window, len(c.Rules.Rules))
	for i, span := range spans {
		report, err := measure(ctx, c, span, windows)
		if err != nil {
			return nil, err
		}
		// The next span is longer. Of its windows, a short log shows less than a third.
		if i+1 < len(spans) && partsOf*lengthOf(report) < spans[i+1] {
			break
		}
	}

	proposed := make([][]rule.Limit, len(windows))
	for i := range windows {
		proposed[i] = limitsOf(windows[i])
	}
	c.Rules = c.Rules.WithLimits(proposed)
	report, err := Run(ctx, c)
	if err != nil {
		return nil, err
	}

	s := &Suggestions{Requests: report.Requests, Filtered: report.Filtered, Unread: report.Unread, From: report.From, To: report.To, Faults: report.Faults, report: report}
	for i, r := range report.Rules {
		one := SuggestedRule{Rule: r.Rule, Key: r.Key, Keys: r.Keys, Requests: r.Requests, Windows: windows[i], Limits: []string{}, Blocked: []Blocked{}, Inline: r.Inline, Distinct: c.Rules.Rules[i].CountsDistinct(), Share: c.Rules.Rules[i].CountsShare()}
		if len(proposed[i]) > 0 {
			one.Limits, one.Refused, one.Blocked = r.Limits, r.Refused, r.Blocked
		}
		s.Rules = append(s.Rules, one)
	}
	return s, nil
}

// spansOf are the lengths of the windows of all rules that count logs, sorted.
func spansOf(set *rule.Set) (spans []time.Duration) {
	for _, r := range set.Rules {
		if !r.CountsLog() || r.HasValues() {
			continue
		}
		for _, limit := range r.Limits {
			if !limit.AtOnce && !limit.Queued {
				spans = append(spans, limit.Per)
			}
		}
	}
	slices.Sort(spans)
	return slices.Compact(spans)
}

// measure adds the window of this length to those of each rule that has one. A key with two hits in it breaks a limit of
// one, and a report has the peaks of all keys that break a limit; the peaks of the others are 1.
func measure(ctx context.Context, c Config, span time.Duration, windows [][]Window) (*Report, error) {
	one, never := limitOf(1, span), limitOf(neverReached, time.Second)
	measured := make([][]rule.Limit, len(windows))
	for i, r := range c.Rules.Rules {
		if r.HasValues() {
			continue // it keeps its own limits
		}
		measured[i] = []rule.Limit{never}
		if has(r, span) {
			measured[i] = []rule.Limit{one}
		}
	}

	set := c.Rules
	c.Rules = set.Sliding().WithLimits(measured)
	report, err := Run(ctx, c)
	if err != nil {
		return nil, err
	}
	for i := range report.Rules {
		if r := &report.Rules[i]; has(set.Rules[i], span) && r.Keys > 0 {
			windows[i] = append(windows[i], windowOf(r, span))
		}
	}
	return report, nil
}

// lengthOf is the time between the first and the last request of the logs.
func lengthOf(r *Report) time.Duration {
	if r.From == nil {
		return 0
	}
	return time.Duration(*r.To-*r.From) * time.Millisecond
}

const neverReached = 1_000_000_000_000

func has(r *rule.Rule, span time.Duration) bool {
	return r.CountsLog() && !r.HasValues() && slices.ContainsFunc(r.Limits, func(l rule.Limit) bool { return !l.AtOnce && !l.Queued && l.Per == span })
}

// limitOf is a limit as a user would write it.
func limitOf(hits int64, span time.Duration) rule.Limit {
	limit, err := rule.ParseLimit(strconv.FormatInt(hits, 10) + "/" + periodText(span))
	if err != nil {
		panic(err) // the hits and the span are those of limits
	}
	return limit
}

// periodText is the length of a window as limits name it: min, 10min, hour.
func periodText(span time.Duration) string {
	units := []struct {
		span time.Duration
		name string
	}{{7 * 24 * time.Hour, "week"}, {24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "min"}, {time.Second, "s"}, {time.Millisecond, "ms"}}
	for _, unit := range units {
		switch {
		case span == unit.span:
			return unit.name
		case span%unit.span == 0:
			return strconv.FormatInt(int64(span/unit.span), 10) + unit.name
		}
	}
	return span.String()
}

// windowOf is the window of a rule; the report has the peaks of its keys.
func windowOf(r *RuleReport, span time.Duration) Window {
	peaks := make([]int64, 0, len(r.Blocked))
	for _, b := range r.Blocked {
		peaks = append(peaks, max(b.Peak, 1))
	}
	slices.Sort(peaks)
	ones := r.Keys - int64(len(peaks))
	at := func(share float64) int64 { // the peak that this share of the keys does not exceed
		i := int64(math.Ceil(share*float64(r.Keys))) - 1 - ones
		if i < 0 {
			return 1
		}
		return peaks[min(i, int64(len(peaks))-1)]
	}

	w := Window{Per: periodText(span), span: span, Half: at(0.5), P99: at(0.99), P999: at(0.999), Most: at(1)}
	w.Suggested = proposal(peaks, ones)
	first, _ := slices.BinarySearch(peaks, w.Suggested+1)
	w.Over = int64(len(peaks) - first)
	return w
}

// proposal is how many hits are allowed; ones is how many keys have the peak 1, besides the sorted peaks.
func proposal(peaks []int64, ones int64) int64 {
	top := peaks
	switch keep := (int64(len(peaks)) + ones + outOfLine - 1) / outOfLine; {
	case int64(len(top)) > keep:
		top = top[int64(len(top))-keep-1:] // and the one below
	case ones > 0:
		top = append([]int64{1}, top...)
	}

	var lower, higher int64
	for i := 1; i < len(top); i++ {
		low, high := top[i-1], top[i]
		if high > widerThan*low && math.Sqrt(float64(low)*float64(high)) >= leastLimit && (lower == 0 || float64(high)/float64(low) > float64(higher)/float64(lower)) {
			lower, higher = low, high
		}
	}
	if higher == 0 {
		most := int64(1)
		if len(peaks) > 0 {
			most = peaks[len(peaks)-1]
		}
		return rounded(max(leastLimit, min(headroom*most, neverReached)), neverReached)
	}
	return rounded(int64(math.Ceil(math.Sqrt(float64(lower)*float64(higher)))), higher-1)
}

// rounded is the next number that people would choose, unless it is over the bound.
func rounded(n, most int64) int64 {
	for unit := int64(1); unit <= neverReached; unit *= 10 {
		for _, tenths := range []int64{10, 12, 15, 20, 25, 30, 40, 50, 60, 80} {
			if nice := tenths * unit / 10; tenths*unit%10 == 0 && nice >= n {
				return min(nice, max(n, most))
			}
		}
	}
	return n
}

// limitsOf are the limits of some windows, the shortest first, without those that others make useless: because the next
// longer window allows no more hits, or a shorter one has the stricter rate.
func limitsOf(windows []Window) (limits []rule.Limit) {
	var kept []Window
	for _, w := range slices.SortedFunc(slices.Values(windows), func(a, b Window) int { return cmp.Compare(a.span, b.span) }) {
		for len(kept) > 0 && kept[len(kept)-1].Suggested >= w.Suggested {
			kept = kept[:len(kept)-1]
		}
		looser := slices.ContainsFunc(kept, func(k Window) bool {
			return float64(w.Suggested)/w.span.Seconds() >= float64(k.Suggested)/k.span.Seconds()
		})
		if !looser {
			kept = append(kept, w)
		}
	}
	for _, w := range kept {
		limits = append(limits, limitOf(w.Suggested, w.span))
	}
	return limits
}
