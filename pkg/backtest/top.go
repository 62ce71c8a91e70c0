package backtest

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"weir/pkg/rule"
)

// topCounters is how many different values of a field Top counts at a time.
const topCounters = 10_000

// A TopReport has the heaviest values of a field. Its JSON form is the documented output of `weir top --by --json`.
type TopReport struct {
	ReadReport
	By      string     `json:"by"`       // the field, as in keys of rules
	Counted int64      `json:"counted"`  // requests with the field
	Without int64      `json:"without"`  // requests without it
	TooHigh int64      `json:"too_high"` // no number is too high by more
	Values  []TopValue `json:"values"`   // the heaviest first
	InputsReport

	report *Report
}

// A TopValue is one of the heaviest values.
type TopValue struct {
	Value    string            `json:"value"`    // in the form of keys: printable, and cut if it is long
	Fields   map[string]string `json:"fields"`   // as the requests had them
	Requests int64             `json:"requests"` // never too low
	TooHigh  int64             `json:"too_high"` // by at most this the number is too high
}

// Top finds the values of a field that most requests have: of the key of the only rule, which has to count each request.
// Values have the form that they have in keys, so each is printable and has at most 256 bytes.
//
// It counts 10,000 values at a time by Space-Saving. No number is too low, or too high by more than a 10,000th of the
// requests, and each value with more requests than that is found. With up to 10,000 different values all numbers are
// exact. Memory has the bound that this gives, whatever the logs have. Options that are for rules have no effect.
func Top(ctx context.Context, c Config, number int) (*TopReport, error) {
	c.setDefaults()
	c.Against, c.Timelines = nil, false
	if c.Rules == nil || len(c.Rules.Rules) != 1 {
		return nil, errNoRules
	}

	p := &pass{config: &c, repeated: newRepeated(c.Dedupe), heavy: newHeavySketch(topCounters)}
	if err := p.lookAtAll(ctx); err != nil {
		return nil, err
	}
	if err := p.read(ctx); err != nil {
		return nil, err
	}
	return p.top(number), nil
}

func (p *pass) top(number int) *TopReport {
	r, key := p.heads(), p.config.Rules.Rules[0].Key
	t := &TopReport{ReadReport: r.ReadReport, By: key.String(), Values: []TopValue{}, InputsReport: r.InputsReport, report: r}
	for _, w := range p.workers {
		t.Without += w.judges[0].Counts(0)[rule.NoKey]
	}
	for _, v := range p.heavy.heap {
		t.Counted += v.count // a value that takes over a counter takes over its count
		t.TooHigh = max(t.TooHigh, v.most)
	}
	for _, v := range p.heavy.heaviest(number) {
		t.Values = append(t.Values, TopValue{v.value, key.Fields(v.value), v.count, v.most})
	}
	return t
}

// WriteJSON writes the report for programs.
func (r *TopReport) WriteJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// WriteKeys writes the values, one a line.
func (r *TopReport) WriteKeys(w io.Writer) error {
	out := bufio.NewWriter(w)
	for _, v := range r.Values {
		fmt.Fprintln(out, v.Value)
	}
	return out.Flush()
}

// WriteText writes the report for people.
func (r *TopReport) WriteText(w io.Writer, o TextOptions) error {
	t := &textWriter{Writer: bufio.NewWriter(w), options: o, keyWidth: max(24, cmp.Or(o.Width, 120)-30)}
	t.read(r.report)
	if r.Without > 0 {
		t.line("%s without %s", counted(r.Without, "request"), r.By)
	}
	if len(r.Values) == 0 {
		return t.Flush()
	}

	t.line("")
	table := textTable{{r.By, "requests", ""}}
	if r.TooHigh > 0 {
		table[0] = append(table[0], "at most too high by")
	}
	for _, v := range r.Values {
		row := []string{t.shortened(v.Value), grouped(v.Requests), percentOf(v.Requests, r.Counted)}
		if r.TooHigh > 0 {
			row = append(row, grouped(v.TooHigh))
		}
		table = append(table, row)
	}
	t.table(table, 1)
	if r.TooHigh > 0 {
		t.line("  %s", t.faint("there are more than "+grouped(topCounters)+" values, so a number can be too high, never too low"))
	}
	return t.Flush()
}
