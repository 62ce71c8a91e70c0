package inspect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/internal/daemon"
	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/command"
	"weir/cmd/weir/internal/live"
	"weir/cmd/weir/internal/output"
	"weir/cmd/weir/internal/shown"
	"weir/internal/topic"
	"weir/pkg/backtest"
	"weir/pkg/blocklist"
)

// A historyCommand contains the flags of `weir history`.
type historyCommand struct {
	live   live.Flags
	from   string
	rule   string
	tries  bool // attempts at inline rules, and no events
	output command.Output
}

func newHistory() *cobra.Command {
	h := &historyCommand{}
	c := &cobra.Command{
		Use:   "history [flags] KEY",
		Short: "Show all events of a key: when and why it was blocked, and the manual entries",
		Long: `History reads the topic of events, which has every change of the list for kafka.events.retention, up to the last event
that exists when it starts. It shows the events of a key: a key as the list shows it (alice /login), an address (with
the events of prefixes that contain it), a prefix (with all events within it), or a field with its value (user:alice).

With --attempts it shows the attempts of the key at inline rules instead, the newest first and at most 1,000: those that
enforcers have written to their topic (inline.history), or to a table in SQL if there are no brokers.

If there is no event of the key, the exit code is 3. History reads only the topic of events; no part of Weir has to run.`,
		Example: `  weir history 203.0.113.7
  weir history user:alice --from 7d --json
  weir history 'alice /login' --rule sign-in
  weir history 203.0.113.7 --attempts --from 1h`,
		Args: command.OneKey,
		RunE: func(c *cobra.Command, args []string) error { return h.run(c, args[0]) },
	}
	h.live.Add(c)
	c.Flags().StringVar(&h.from, "from", "earliest", "begin at `WHERE`: earliest, or 7d before now")
	c.Flags().StringVar(&h.rule, "rule", "", "show the events of one `RULE` only; manual entries have the rule manual")
	c.Flags().BoolVar(&h.tries, "attempts", false, "show the attempts at inline rules, newest first")
	h.output.Add(c, "text", "json")
	return c
}

func (h *historyCommand) run(c *cobra.Command, key string) error {
	from, err := parsePlace(h.from)
	if err != nil {
		return err
	}
	if from.offset >= 0 || from.offset == atLatest {
		return exit.Wrongf("--from %s is not a time; write earliest, or a time before now, such as 7d", h.from)
	}

	if h.tries {
		return h.attempts(c, key, from)
	}

	settings, err := h.live.LoadButRules()
	if err != nil {
		return err
	}

	name := settings.Kafka.Prefix + daemon.Events
	client, err := live.Connect(settings, c.ErrOrStderr(), name)
	if err != nil {
		return err
	}
	defer client.Close()
	// catRun reads the partitions; its writer only reports records that are not events.
	story := &story{of: shown.NewMatch(key), rule: h.rule}
	r := &catRun{client: client, topic: name, shown: newCatWriter(io.Discard, c.ErrOrStderr(), name, h.output.Form)}
	r.newShow = func(partition int) func(*topic.Record) {
		return func(record *topic.Record) {
			if err := story.read(record.Value); err != nil {
				r.shown.failed(partition, record, err)
			}
		}
	}

	err = r.open(c.Context(), from, -1)
	if err == nil {
		err = r.run(c.Context(), false)
	}
	// After an error the events that were found are still shown.
	if err = errors.Join(err, r.shown.end()); err != nil && len(story.events) == 0 {
		return err
	}

	return errors.Join(story.show(c.OutOrStdout(), h.output.Form), err, story.outcome(key, name+client.Place(settings)))
}

// longestStory is how many events of a key are kept, the last ones.
const longestStory = 100_000

// A story is what happened to a key.
type story struct {
	of   *shown.Match
	rule string // empty is any

	mu     sync.Mutex
	events []event
	left   int // events left out, because there are too many
}

// An event is a line of the topic events.
type event struct {
	shown.Entry
	what string
	at   time.Time
	line []byte
}

// read adds an event if it concerns the key.
func (s *story) read(line []byte) error {
	var e event
	var more struct {
		Event string
		At    time.Time
	}

	if json.Unmarshal(line, &e.Entry) != nil || json.Unmarshal(line, &more) != nil || more.Event == "" {
		return errors.New("it is not an event")
	}
	if s.rule != "" && s.rule != e.Rule || !s.of.Covers(&e.Entry) {
		return nil
	}

	e.what, e.at, e.line = more.Event, more.At, bytes.Clone(line)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.events = append(s.events, e); len(s.events) >= 2*longestStory {
		s.trim()
	}

	return nil
}

// trim sorts the events by time, and drops the oldest when there are more than longestStory.
func (s *story) trim() {
	slices.SortStableFunc(s.events, func(a, b event) int { return a.at.Compare(b.at) })
	if over := len(s.events) - longestStory; over > 0 {
		s.left += over
		s.events = slices.Delete(s.events, 0, over)
	}
}

// A sameEvent identifies an event. Aggregators may publish an event twice when they are not sure that the first time
// succeeded.
type sameEvent struct {
	id, what     string
	until, ended int64
}

func (s *story) show(w io.Writer, form string) error {
	s.trim()
	var b strings.Builder
	if s.left > 0 && form == "text" {
		fmt.Fprintf(&b, "(%s before these are left out; --from selects fewer)\n", output.Counted(s.left, "event"))
	}

	rows, shown := make([]string, 0, len(s.events)), map[sameEvent]bool{}
	for i := range s.events {
		e := &s.events[i]
		if form == "json" {
			b.Write(append(e.line, '\n'))
			continue
		}
		if same := (sameEvent{e.ID, e.what, e.Until, e.Ended}); !shown[same] {
			shown[same] = true
			rows = append(rows, e.row())
		}
	}

	output.Table(&b, rows)
	_, err := io.WriteString(w, b.String())
	return err
}

// outcome returns an error when there are no events.
func (s *story) outcome(key, where string) error {
	if len(s.events) == 0 {
		return exit.Unmetf("%s has no events of %s", where, key)
	}
	return nil
}

// row returns the event as a row for people.
func (e *event) row() string {
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%s", backtest.Instant(e.at.UnixMilli()), shown.Event(e.what, e.Order), e.RuleName(), e.Target(), e.rest())
}

func (e *event) rest() string {
	switch {
	case e.what == blocklist.EventEnded && e.Why == "":
		return "its rule was removed"
	case e.what == blocklist.EventEnded, e.what == blocklist.EventLifted, e.Order == blocklist.OrderPardon:
		return e.WhyText()
	}
	return e.UntilText() + ", " + e.WhyText()
}
