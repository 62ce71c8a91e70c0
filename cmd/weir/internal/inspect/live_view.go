package inspect

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/cmd/internal/config"
	"weir/cmd/weir/internal/ask"
	"weir/cmd/weir/internal/output"
	"weir/cmd/weir/internal/shown"
	"weir/pkg/blocklist"
	"weir/pkg/enforcer/past"
)

// A Live is the view of `weir run`: what its process reads, blocks and refuses now.
type Live struct {
	Settings *config.Config
	Counted  func() (requests, wouldBlock float64) // all that were read, and the active entries in shadow mode
	Colors   bool
	Foot     string // the last line

	began time.Time
	mu    sync.Mutex
	now   liveState
}

// A liveState is what the view shows at a time.
type liveState struct {
	at        time.Time
	perSecond float64
	requests  float64
	shadow    float64
	numbers   *liveNumbers // nil while the enforcer does not answer
	events    []*past.Event
	near      []*topKey
	note      string
}

// liveNumbers are what an enforcer has counted.
type liveNumbers struct {
	Since      time.Time
	Refused    int64
	LastMinute struct{ Checks, Refused int64 } `json:"last_minute"`
	Rules      map[string]struct {
		BlockedNow   int64  `json:"blocked_now"`
		BlockedToday *int64 `json:"blocked_today"`
	}
	Entries []struct {
		Rule, Key  string
		Until      time.Time
		Refused    int64
		LastMinute int64 `json:"last_minute"`
	}
}

const (
	liveEvery = time.Second
	liveLines = 5 // rows of each list at most
)

// Run looks at the process until the context is done.
func (l *Live) Run(ctx context.Context) {
	l.began = time.Now()
	enforcer, err := ask.Own(l.Settings)
	if err != nil {
		l.set(liveState{at: l.began, note: noteOf(err)})
		return
	}
	defer enforcer.Close()

	before := liveState{at: l.began}
	before.requests, _ = l.Counted()
	for {
		next := liveState{at: time.Now()}
		next.requests, next.shadow = l.Counted()
		if passed := next.at.Sub(before.at).Seconds(); passed > 0 {
			next.perSecond = (next.requests - before.requests) / passed
		}
		if err := next.ask(ctx, enforcer); err != nil {
			enforcer.Retry()
			next.note = noteOf(err)
		}
		l.set(next)
		before = next
		select {
		case <-time.After(liveEvery):
		case <-ctx.Done():
			return
		}
	}
}

func (l *Live) set(s liveState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = s
}

// ask asks the enforcer. It leaves out what it does not get.
func (s *liveState) ask(ctx context.Context, enforcer *ask.Enforcer) error {
	numbers := &liveNumbers{}
	if _, err := enforcer.Ask(ctx, http.MethodGet, "/v1/numbers", url.Values{"entries": {fmt.Sprint(liveLines)}}, nil, numbers); err != nil {
		return err
	}
	s.numbers = numbers

	var page past.Page
	if _, err := enforcer.Ask(ctx, http.MethodGet, "/v1/events", url.Values{"limit": {fmt.Sprint(liveLines)}}, nil, &page); err == nil {
		for _, line := range page.Events {
			if event, err := past.ReadEvent(line); err == nil {
				s.events = append(s.events, event)
			}
		}
	}
	for _, path := range []string{"/v1/parts/aggregator/top", "/v1/top"} {
		var near []*topKey
		if _, err := enforcer.Ask(ctx, http.MethodGet, path, url.Values{"n": {fmt.Sprint(liveLines)}}, nil, &near); err == nil {
			s.near = append(s.near, near...)
		}
	}
	slices.SortStableFunc(s.near, byShare)
	s.near = s.near[:min(len(s.near), liveLines)]
	return nil
}

// Lines returns the view for a terminal of a size.
func (l *Live) Lines(columns, rows int) []string {
	l.mu.Lock()
	s := l.now
	l.mu.Unlock()
	if s.at.IsZero() {
		return nil
	}
	each := max(1, min(liveLines, (rows-10)/3)) // the other half of a small terminal is for the log
	screen := output.Screen{Columns: columns, Colors: l.Colors}
	lines := []output.Row{{}, {Cells: fmt.Sprintf("weir run  %s  for %s  %.0f requests/s, %s read", s.at.Format("15:04:05 MST"),
		shown.Span(s.at.Sub(l.began)), s.perSecond, output.Counted(int(s.requests), "request"))}}
	if s.note != "" {
		lines = append(lines, output.Row{Cells: s.note, Color: output.Yellow})
	}
	if s.numbers != nil {
		lines = append(lines, output.Row{Cells: s.counts()})
	}
	lines = append(lines, s.lists(shown.LocalTimes(s.at), each)...)
	lines = append(lines, output.Row{Cells: l.Foot})

	drawn := make([]string, len(lines))
	for i, line := range lines {
		drawn[i] = screen.Line(line.Cells, line.Color)
	}
	return drawn
}

// counts describes what is blocked and refused.
func (s *liveState) counts() string {
	n := s.numbers
	var now, today int64
	known := len(n.Rules) > 0
	for _, r := range n.Rules {
		now += r.BlockedNow
		if r.BlockedToday == nil {
			known = false
			continue
		}
		today += *r.BlockedToday
	}
	text := output.Counted(int(now), "key") + " blocked now"
	if known {
		text += ", " + output.Counted(int(today), "block") + " today"
	}
	if s.shadow > 0 {
		text += "; " + output.Grouped(int(s.shadow)) + " would be blocked (shadow)"
	}
	seconds := max(1, min(60, s.at.Sub(n.Since).Seconds())) // of the last minute
	return text + fmt.Sprintf("; %.1f of %.1f checks/s refused, %s in all",
		float64(n.LastMinute.Refused)/seconds, float64(n.LastMinute.Checks)/seconds, output.Grouped(int(n.Refused)))
}

// lists are the last events, the entries that refuse most, and the keys that are nearest to a limit.
func (s *liveState) lists(times shown.Times, each int) (lines []output.Row) {
	var rows []output.Row
	for _, event := range s.events[:min(len(s.events), each)] {
		rows = append(rows, eventRow(event, times))
	}
	lines = appendList(lines, "Last changes of the list:", rows)

	rows = nil
	if s.numbers != nil {
		for _, e := range s.numbers.Entries[:min(len(s.numbers.Entries), each)] {
			rows = append(rows, output.Row{Cells: fmt.Sprintf("%s\t%s\t%d refused in the last minute\t%s", cutCell(output.Printable(e.Key)), output.Printable(e.Rule), e.LastMinute, leftOf(e.Until, s.at)), Color: output.Red})
		}
	}
	lines = appendList(lines, "Refused most:", rows)

	rows = nil
	for _, key := range s.near[:min(len(s.near), each)] {
		rows = append(rows, output.Row{Cells: fmt.Sprintf("%s\t%s\t%d hits\t%.0f%% of %s", cutCell(output.Printable(key.Key)), output.Printable(key.Rule), key.Count, 100*key.Share, output.Printable(key.Limit))})
	}
	return appendList(lines, "Nearest to a limit:", rows)
}

// leftOf returns how long an entry remains.
func leftOf(until, now time.Time) string {
	if until.UTC().Year() == 9999 { // as JSON writes an entry without an end
		return "no end"
	}
	return shown.Span(max(0, until.Sub(now))) + " left"
}

// appendList appends rows below a title, unless there are none.
func appendList(lines []output.Row, title string, rows []output.Row) []output.Row {
	if len(rows) == 0 {
		return lines
	}
	cells := make([]string, len(rows))
	for i := range rows {
		cells[i] = "  " + rows[i].Cells
	}
	var text strings.Builder
	output.Table(&text, cells)
	lines = append(lines, output.Row{Cells: title})
	for i, line := range strings.Split(strings.TrimRight(text.String(), "\n"), "\n") {
		lines = append(lines, output.Row{Cells: line, Color: rows[i].Color})
	}
	return lines
}

// eventRow is an event as a row.
func eventRow(of *past.Event, times shown.Times) output.Row {
	e := &shown.Entry{Entry: of.Entry}
	row := output.Row{Cells: fmt.Sprintf("%s\t%s\t%s\t%s\t", times.At(of.At), output.Printable(shown.Event(of.What, e.Order)), cutCell(e.Target()), e.RuleName())}
	ends := of.What == blocklist.EventLifted || of.What == blocklist.EventEnded
	switch {
	case ends || !e.Blocks():
		row.Color = output.Green
	case e.Mode == blocklist.Shadow:
		row.Color = output.Yellow
	default:
		row.Color = output.Red
	}
	if !ends && e.Until != blocklist.Never && e.Order != blocklist.OrderPardon {
		row.Cells += times.Until(e.Until) + ", "
	}
	row.Cells += e.WhyIn(times)
	return row
}
