package inspect

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/output"
	"weir/cmd/weir/internal/shown"
	"weir/pkg/backtest"
	"weir/pkg/blocklist"
	"weir/pkg/enforcer/past"
)

const (
	// longestStory is how many events are kept, the last ones.
	longestStory = 100_000
	// usualStory is how many are shown to people who name neither a key nor a time.
	usualStory = 1000
)

// A story is what happened, the oldest first.
type story struct {
	query past.Query
	most  int // events

	mu     sync.Mutex
	events []*past.Event
	left   int               // events left out, because there are too many
	more   bool              // there are others, and their number is not known
	proofs []*shown.Evidence // of the last blocks, the last first; empty unless they are asked for
}

// read adds an event of the topic if it is asked for.
func (s *story) read(line []byte) error {
	e, err := past.ReadEvent(bytes.Clone(line))
	if err != nil {
		return errors.New("it is not an event")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.query.Matches(e) {
		return nil
	}
	if s.events = append(s.events, e); len(s.events) >= 2*s.most {
		s.drop()
	}
	return nil
}

// add adds an event of an index.
func (s *story) add(line []byte) error {
	e, err := past.ReadEvent(line)
	if err == nil {
		s.events = append(s.events, e)
	}
	return err
}

// trim sorts the events by time, and drops those that are there twice, and the oldest when there are too many.
// Aggregators may publish an event twice when they are not sure that the first time succeeded.
func (s *story) trim() {
	s.drop()
	known := map[string]bool{}
	s.events = slices.DeleteFunc(s.events, func(e *past.Event) bool {
		same := e.Identity()
		if known[same] {
			return true
		}
		known[same] = true
		return false
	})
}

func (s *story) drop() {
	slices.SortStableFunc(s.events, func(a, b *past.Event) int { return int(a.At - b.At) })
	if over := len(s.events) - s.most; over > 0 {
		s.left += over
		s.events = slices.Delete(s.events, 0, over)
	}
}

// show writes the events, for people in a terminal with the times of their zone.
func (s *story) show(w io.Writer, form string, zone *time.Location) error {
	if form != "text" {
		if err := s.withEvidence(); err != nil {
			return err
		}
		out := bufio.NewWriter(w)
		to, err := past.NewWriter(out, form)
		for _, e := range s.events {
			if err == nil {
				err = to.Write(e)
			}
		}
		return errors.Join(err, out.Flush())
	}

	var b strings.Builder
	switch {
	case s.left > 0:
		fmt.Fprintf(&b, "(%s before these are left out; --from or --since selects fewer)\n", output.Counted(s.left, "event"))
	case s.more:
		b.WriteString("(the events before these are left out; --since selects fewer)\n")
	}
	if zone != nil && len(s.events) > 0 {
		fmt.Fprintf(&b, "Times are of %s.\n", zoneName(s.events[len(s.events)-1].At, zone))
	}
	rows := make([]string, 0, len(s.events))
	for _, e := range s.events {
		rows = append(rows, row(e, zone))
	}
	output.Table(&b, rows)
	times := shown.Times{}
	if zone != nil {
		times = shown.LocalTimes(time.Now())
	}
	for _, one := range slices.Backward(s.proofs) {
		one.Text(&b, times)
	}
	return output.WriteText(w, b.String())
}

// zoneName is the name of a zone with its offset: CET (+01:00).
func zoneName(at int64, zone *time.Location) string {
	return time.UnixMilli(at).In(zone).Format("MST (-07:00)")
}

// outcome returns an error when there are no events.
func (s *story) outcome(where string) error {
	switch {
	case len(s.events) > 0:
		return nil
	case s.query.At != 0:
		return exit.Unmetf("%s knows of no such entry at %s", where, backtest.Instant(s.query.At))
	case s.query.Key == "":
		return exit.Unmetf("%s has no such events", where)
	}
	return exit.Unmetf("%s has no events of %s", where, s.query.Key)
}

// when is a time as people read it.
func when(at int64, zone *time.Location) string {
	if zone == nil {
		return backtest.Instant(at).String()
	}
	return time.UnixMilli(at).In(zone).Format("2006-01-02 15:04:05")
}

// row returns the event as a row for people.
func row(of *past.Event, zone *time.Location) string {
	e := &shown.Entry{Entry: of.Entry}
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%s", when(of.At, zone), output.Printable(shown.Event(of.What, e.Order)), e.RuleName(), e.Target(), rest(of.What, e, zone))
}

// rest describes the event. At a terminal, which has a zone, it begins with what is not refused.
func rest(what string, e *shown.Entry, zone *time.Location) string {
	shadow := zone != nil && e.Mode == blocklist.Shadow
	would := "would block"
	if e.Guarded {
		would = "guarded, would block"
	}
	switch {
	case what == blocklist.EventEnded && e.Why == "":
		return "its rule was removed"
	case shadow && what == blocklist.EventLifted:
		return would + ": " + e.Reason()
	case shadow && e.Until != blocklist.Never:
		return would + " until " + when(e.Until, zone) + ": " + e.Reason()
	case what == blocklist.EventEnded, what == blocklist.EventLifted, e.Order == blocklist.OrderPardon:
		return e.WhyText()
	case e.Until == blocklist.Never || zone == nil:
		return e.UntilText() + ", " + e.WhyText()
	}
	return "until " + when(e.Until, zone) + ", " + e.WhyText()
}
