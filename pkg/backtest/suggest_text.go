package backtest

import (
	"bufio"
	"cmp"
	"encoding/json"
	"io"
	"strings"
)

// WriteJSON writes the suggestions for programs.
func (s *Suggestions) WriteJSON(w io.Writer) error { return json.NewEncoder(w).Encode(s) }

// WriteText writes the suggestions for people.
func (s *Suggestions) WriteText(w io.Writer, o TextOptions) error {
	t := &textWriter{Writer: bufio.NewWriter(w), options: o, keyWidth: max(24, cmp.Or(o.Width, 120)-60)}
	t.head(s.report)
	for i := range s.Rules {
		t.suggested(&s.Rules[i])
	}
	return t.Flush()
}

func (t *textWriter) suggested(r *SuggestedRule) {
	if r.Inline {
		t.line("\n%s", leftOut(r.Rule))
		return
	}
	if r.Distinct {
		t.line("\nrule %s counts different values; it is left out here", r.Rule)
		return
	}
	if r.Share {
		t.line("\nrule %s limits a share of requests; it is left out here", r.Rule)
		return
	}
	t.line("\n%s  %s", t.strong(r.Rule), t.faint("by "+r.Key))
	t.line("  %s of %s", counted(r.Requests, "request"), counted(r.Keys, "key"))
	if len(r.Limits) == 0 {
		return
	}

	table := textTable{{"hits of a key within", "half", "99%", "99.9%", "most", "suggested", "keys over it"}}
	for _, w := range r.Windows {
		table = append(table, []string{w.Per, grouped(w.Half), grouped(w.P99), grouped(w.P999), grouped(w.Most), grouped(w.Suggested), grouped(w.Over)})
	}
	t.table(table, 1)
	t.line("  %s", t.strong("limits: ["+strings.Join(r.Limits, ", ")+"]"))
	t.line("  would have blocked %s (%s) and refused %s (%s)", counted(int64(len(r.Blocked)), "key"), percentOf(int64(len(r.Blocked)), r.Keys),
		counted(r.Refused, "request"), percentOf(r.Refused, r.Requests))
	t.blocked(r.Blocked)
}
