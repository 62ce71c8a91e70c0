package backtest

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
)

// A total is the sum of the chunks, except the counters' results.
type total struct {
	requests       int64
	filtered       int64
	oldest, newest int64 // of the requests
	series         *series
	unread         map[string]int64
	inputs         []inputTotal
	samples        []Sample // the first of each reason
	faults         []string
}

type inputTotal struct {
	requests, lines int64
	unread          map[string]int64
}

func newTotal(inputs, bars int) *total {
	t := &total{oldest: math.MaxInt64, newest: math.MinInt64, series: newSeries(bars), unread: map[string]int64{}, samples: []Sample{}, faults: []string{},
		inputs: make([]inputTotal, inputs)}
	for i := range t.inputs {
		t.inputs[i].unread = map[string]int64{}
	}
	return t
}

// add adds a chunk.
func (t *total) add(c *chunk) {
	in := &t.inputs[c.log.rank]

	// Before the lines are added: the samples' line numbers are relative to those of the chunks before.
	for i := range c.unread {
		u := &c.unread[i]
		if t.unread[u.reason] == 0 {
			t.samples = append(t.samples, Sample{u.reason, c.log.Path, in.lines + 1 + u.line, u.sample})
		}
		t.unread[u.reason] += u.lines
		in.unread[u.reason] += u.lines
	}

	in.lines += c.skipped + c.lines
	in.requests += c.requests
	if c.end != nil && !errors.Is(c.end, io.EOF) {
		t.faults = append(t.faults, faultOf(c.log, in.lines, c.end))
	}

	t.requests += c.requests
	t.filtered += c.filtered
	if c.requests > 0 {
		t.oldest, t.newest = min(t.oldest, c.oldest), max(t.newest, c.newest)
	}

	for _, s := range c.spans {
		t.series.at(s.second * 1000).requests += s.requests
	}
}

// inputReports are the reports of the inputs in the order of logs.
func (t *total) inputReports(logs []*log) []InputReport {
	reports := make([]InputReport, len(logs))
	for i, l := range logs {
		in := &t.inputs[i]
		reports[i] = InputReport{Input: l.Path, Format: l.choice.String(), Doubt: l.choice.Doubt(), Requests: in.requests, Unread: maps.Clone(in.unread)}
		if l.empty {
			reports[i].Format = "empty"
		}
	}
	return reports
}

// faultOf describes where a log broke off.
func faultOf(l *log, lines int64, err error) string {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Sprintf("%s: it is cut off after line %d", l.Path, lines)
	}
	return fmt.Sprintf("%s: after line %d: %v", l.Path, lines, err)
}

// plotOf merges the requests and the refused ones into bars of the same times.
func plotOf(requests, refused *series) *series {
	if len(requests.bars) == 0 {
		return requests
	}
	refused.widenTo(requests.step)
	requests.widenTo(refused.step)
	for i, b := range refused.bars {
		requests.at(refused.start(i)).refused += b.refused
	}
	return requests
}
