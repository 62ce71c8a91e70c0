package notify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"weir/pkg/blocklist"
)

// A quote makes a text that a client has chosen harmless in a form.
type quote func(string) string

// longestText is how many characters of a key or a reason are shown.
const longestText = 200

// plain returns a text in one line, without characters that are invisible or change the direction of others.
func plain(text string) string {
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n++; n > longestText {
			b.WriteRune('…')
			break
		}
		if !unicode.IsGraphic(r) || r == '\u2028' || r == '\u2029' {
			r = '\uFFFD'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Title is a message in a few words: per-ip: 3 blocked, 1 lifted.
func (m *Message) Title() string {
	if m.Test {
		return "a test: notifications of Weir reach this receiver"
	}
	rules := map[string]bool{}
	events := map[string]int{}
	for of, n := range m.Counts {
		rules[of.Rule] = true
		events[of.what()] += n
	}

	var counted []string
	for _, event := range slices.Sorted(maps.Keys(events)) {
		counted = append(counted, fmt.Sprintf("%d %s", events[event], event))
	}
	title := strings.Join(counted, ", ")
	if len(rules) == 1 {
		return plain(slices.Collect(maps.Keys(rules))[0]) + ": " + title
	}
	return fmt.Sprintf("%d rules: %s", len(rules), title)
}

// what is an event in a word, with a remark if nothing is refused.
func (of CountOf) what() string {
	switch {
	case of.Guarded:
		return of.Event + " (guarded by " + blocklist.GuardedBy(of.ByShare) + ": not refused)"
	case of.Shadow:
		return of.Event + " (shadow: not refused)"
	}
	return of.Event
}

// lines are a message in words, below its title: a line for each of at most so many events, and what is only counted.
func (m *Message) lines(most int, q quote) (lines []string) {
	for _, e := range m.Events[:min(most, len(m.Events))] {
		lines = append(lines, e.line(q))
	}
	if m.Reason != "" {
		lines = append(lines, m.Reason+":")
		lines = append(lines, m.Counts.lines(most, q)...)
		return lines
	}
	if more := m.Counts.Sum() - min(most, len(m.Events)); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return lines
}

func (c Counts) lines(most int, q quote) (lines []string) {
	all := slices.SortedFunc(maps.Keys(c), func(a, b CountOf) int {
		return cmp.Or(cmp.Compare(c[b], c[a]), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.what(), b.what()))
	})
	for _, of := range all[:min(most, len(all))] {
		lines = append(lines, fmt.Sprintf("%s: %d %s", q(plain(of.Rule)), c[of], of.what()))
	}
	if more := len(all) - most; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more rules and events", more))
	}
	return lines
}

// line is an event in a few words.
func (e *Event) line(q quote) string {
	if e.Source == blocklist.Manual {
		return e.orderLine(q(plain(e.Key)), q)
	}
	key := q(plain(e.Target()))

	would := ""
	if e.Mode == blocklist.Shadow {
		would = "would be "
	}
	broke := ""
	if e.Limit != "" {
		broke = ": " + blocklist.Broke(e.Count, "requests", q(plain(e.Limit)))
	}
	if e.Why != "" { // of a group: its addresses
		broke += "; " + q(plain(e.Why))
	}
	if e.Guarded && e.Mode == blocklist.Shadow {
		broke += "; the guard of the rule (" + blocklist.GuardedBy(e.ByShare) + ") holds it back: it is refused only while a person has confirmed the rule"
	}
	switch e.Event {
	case blocklist.EventBlocked:
		return key + " " + would + "blocked " + until(e.Until) + broke
	case blocklist.EventExtended:
		return key + " " + would + "blocked longer, " + until(e.Until) + broke
	case blocklist.EventCorrected:
		return key + " " + would + "blocked, corrected by late requests, " + until(e.Until) + broke
	case blocklist.EventEnded:
		return key + " no longer blocked: its rule is gone"
	case blocklist.EventLifted:
		if e.Why != "" {
			return key + " no longer blocked: " + q(plain(e.Why))
		}
		return key + " no longer blocked: a person let it in"
	}
	return key + " " + q(plain(e.Event))
}

func (e *Event) orderLine(key string, q quote) string {
	by := " by " + q(plain(e.By))
	if e.Why != "" {
		by += ", because: " + q(plain(e.Why))
	}
	what := map[blocklist.Kind]string{blocklist.OrderBlock: " blocked ", blocklist.OrderAllow: " allowed "}[e.Order]
	switch {
	case e.Event == blocklist.EventLifted:
		return e.Order.String() + " of " + key + " lifted" + by
	case e.Order == blocklist.OrderPardon:
		return key + " let in" + by
	case e.Order == blocklist.OrderPause && e.Key == blocklist.EveryRule:
		return "all rules paused " + until(e.Until) + by
	case e.Order == blocklist.OrderPause:
		return "rule " + key + " paused " + until(e.Until) + by
	case e.Order == blocklist.OrderConfirm:
		return "guard of rule " + key + " confirmed " + until(e.Until) + by
	case what == "":
		return key + " " + q(plain(e.Event)) + by
	}
	return key + what + until(e.Until) + by
}

func until(ms int64) string {
	if ms == blocklist.Never {
		return "until a person ends it"
	}
	return "until " + time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05 UTC")
}

// jsonText is JSON that is a part of other JSON.
type jsonText []byte

// MarshalJSON returns the text.
func (t jsonText) MarshalJSON() ([]byte, error) { return t, nil }
