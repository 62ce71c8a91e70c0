package inspect

import (
	"bufio"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/ask"
	"weir/cmd/weir/internal/command"
	"weir/cmd/weir/internal/live"
	"weir/cmd/weir/internal/output"
	"weir/internal/duration"
	"weir/pkg/enforcer/past"
)

// A historyCommand contains the flags of `weir history`.
type historyCommand struct {
	enforcer         ask.Flags
	from             string // where to begin in the topic; empty is the index of an enforcer
	since, until, at string
	query            past.Query
	tries            bool // attempts at inline rules, and no events
	output           command.Output
	evidence         bool
	forms            [3]bool // --csv, --ecs, --cef
}

func newHistory() *cobra.Command {
	h := &historyCommand{}
	c := &cobra.Command{
		Use:   "history [flags] [KEY]",
		Short: "Show what happened: who was blocked when and why, and the manual entries",
		Long: `History shows the events of the list: all, or those of a key. KEY is a key as the list shows it (alice /login), an
address (with the events of prefixes that contain it), a prefix (with all events within it), a field with its value
(user:alice), or the beginning of a key and a star ('203.0.*').

It asks the index of an enforcer. When no enforcer answers or has one, it reads the topic of events, which has every
change of the list for kafka.events.retention; with --from it reads the topic at once. A time is 2026-03-03T14:00:00Z,
'2026-03-03 14:00' or 14:00 of this machine's clock, or 90m before now. --at shows who was blocked at a time, and the
other entries that were active then; it needs an enforcer.

With --attempts it shows the attempts of the key at inline rules instead, the newest first and at most 1,000: those that
enforcers have written to their topic (inline.history).

If there is no event, the exit code is 3.`,
		Example: `  weir history 203.0.113.7
  weir history --since 1h --rule sign-in
  weir history --at '2026-03-03 14:00'
  weir history user:alice --from 7d --json
  weir history --by bob --since 30d --csv
  weir history 203.0.113.7 --attempts --from 1h`,
		Args: atMostOneKey,
		RunE: func(c *cobra.Command, args []string) error { return h.run(c, strings.Join(args, "")) },
	}
	h.enforcer.Add(c)
	c.Flags().StringVar(&h.from, "from", "", "read the topic, and begin at `WHERE`: earliest, or 7d before now")
	c.Flags().StringVar(&h.since, "since", "", "show events from a `TIME` on")
	c.Flags().StringVar(&h.until, "until", "", "show events before a `TIME`")
	c.Flags().StringVar(&h.at, "at", "", "show the entries that were active at a `TIME`")
	c.Flags().StringVar(&h.query.Rule, "rule", "", "show the events of one `RULE` only; manual entries have the rule manual")
	c.Flags().StringVar(&h.query.By, "by", "", "show the manual entries of one `PERSON`")
	c.Flags().StringVar(&h.query.Event, "event", "", "show one `EVENT` only: "+strings.Join(past.Events, ", "))
	c.Flags().StringVar(&h.query.Order, "order", "", "show one kind of manual `ENTRY` only: "+strings.Join(past.Orders, ", "))
	c.Flags().BoolVar(&h.tries, "attempts", false, "show the attempts at inline rules, newest first")
	c.Flags().BoolVar(&h.evidence, "evidence", false, "show the last requests that counted too, for the last 20 blocks")
	command.Complete(c, "event", past.Events)
	command.Complete(c, "order", past.Orders)
	h.output.Add(c, "text", "json", "csv", "ecs", "cef")
	for n, form := range []string{"csv", "ecs", "cef"} {
		c.Flags().BoolVar(&h.forms[n], form, false, "the same as -o "+form)
	}
	c.PreRunE = func(*cobra.Command, []string) error { return h.check() }
	return c
}

func atMostOneKey(c *cobra.Command, args []string) error {
	if len(args) < 2 {
		return nil
	}
	return command.OneKey(c, args)
}

// check checks the flags.
func (h *historyCommand) check() error {
	for n, form := range []string{"csv", "ecs", "cef"} {
		switch {
		case !h.forms[n]:
		case h.output.Form != "text" && h.output.Form != form:
			return exit.Wrongf("--%s and -o %s are both given; leave one out", form, h.output.Form)
		default:
			h.output.Form = form
		}
	}
	if err := errors.Join(h.output.Check(), h.checkEvidence()); err != nil {
		return err
	}
	if h.query.Event != "" && !slices.Contains(past.Events, h.query.Event) {
		return exit.Wrongf("--event %s is not known; write one of %s", h.query.Event, strings.Join(past.Events, ", "))
	}
	if h.query.Order != "" && !slices.Contains(past.Orders, h.query.Order) {
		return exit.Wrongf("--order %s is not known; write one of %s", h.query.Order, strings.Join(past.Orders, ", "))
	}

	now := time.Now()
	for _, one := range []struct {
		flag, text string
		to         *int64
	}{{"since", h.since, &h.query.Since}, {"until", h.until, &h.query.Until}, {"at", h.at, &h.query.At}} {
		at, err := readTime(one.text, now)
		if err != nil {
			return exit.Wrongf("--%s %w", one.flag, err)
		}
		if one.text != "" {
			*one.to = max(1, at.UnixMilli())
		}
	}
	if h.query.At != 0 && (h.since != "" || h.until != "" || h.from != "") {
		return exit.Wrongf("--at is one instant; leave --since, --until and --from out")
	}
	if h.from != "" && h.since != "" {
		return exit.Wrongf("--from and --since are both given; leave one out")
	}
	return nil
}

// readTime reads a time that a person typed; none is the zero time.
func readTime(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02"} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, nil
		}
	}
	if clock, err := time.Parse("15:04", text); err == nil {
		at := time.Date(now.Year(), now.Month(), now.Day(), clock.Hour(), clock.Minute(), 0, 0, now.Location())
		if at.After(now) {
			at = at.AddDate(0, 0, -1) // the last time that it was so late
		}
		return at, nil
	}
	if before, err := duration.Parse(text); err == nil && before != duration.Forever {
		return now.Add(-before), nil
	}
	return time.Time{}, fmt.Errorf("%s is not a time; write 2026-03-03T14:00:00Z, '2026-03-03 14:00', 14:00, or 90m for 90 minutes before now", text)
}

func (h *historyCommand) run(c *cobra.Command, key string) error {
	from, err := parsePlace(orEarliest(h.from))
	if err != nil {
		return err
	}
	if from.offset >= 0 || from.offset == atLatest {
		return exit.Wrongf("--from %s is not a time; write earliest, or a time before now, such as 7d", h.from)
	}

	if h.tries {
		if err := command.OneKey(c, []string{key}); err != nil {
			return err
		}
		return h.attempts(c, key, from)
	}

	h.query.Key = key
	story := &story{query: h.query, most: longestStory}
	if key == "" && h.since == "" && h.at == "" && h.from == "" && h.output.Form == "text" {
		story.most = usualStory
	}
	where, err := h.find(c, story, from)
	// After an error the events that were found are still shown.
	if err != nil && len(story.events) == 0 {
		return err
	}
	if h.evidence {
		err = errors.Join(err, h.addEvidence(c.Context(), story))
	}
	out := bufio.NewWriter(c.OutOrStdout())
	failed := story.show(out, h.output.Form, zoneOf(c.OutOrStdout()), output.ScreenOf(c.OutOrStdout()))
	return errors.Join(failed, out.Flush(), err, story.outcome(where))
}

func orEarliest(from string) string {
	if from == "" {
		return "earliest"
	}
	return from
}

// zoneOf returns the zone of the times that people read; nil for programs, which get them as RFC 3339.
func zoneOf(to any) *time.Location {
	if output.IsTerminal(to) {
		return time.Local
	}
	return nil
}

// find fills a story, from an enforcer's index or from the topic, and names the place.
func (h *historyCommand) find(c *cobra.Command, to *story, from catFrom) (where string, err error) {
	if h.from != "" {
		return h.readTopic(c, to, from)
	}
	where, err = h.ask(c, to)
	var no *ask.RefusedError
	without := errors.Is(err, ask.ErrNoEnforcer) || errors.As(err, &no) && (no.Status == 404 || no.Status == 503)
	switch {
	case !without:
		return where, err
	case h.query.At != 0:
		return "", fmt.Errorf("--at needs an enforcer with an index of events: %w", err)
	}

	where, failed := h.readTopic(c, to, from)
	if errors.Is(failed, live.ErrNoTopics) {
		return where, errors.Join(failed, err)
	}
	return where, failed
}
