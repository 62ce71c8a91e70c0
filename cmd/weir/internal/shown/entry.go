// Package shown describes entries, their changes, and requests that do not count, in the words that people read. It decides
// nothing and asks no one.
package shown

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"weir/cmd/weir/internal/output"
	"weir/pkg/backtest"
	"weir/pkg/blocklist"
)

// An Entry describes an entry to people; a manual entry is shown in the same form.
type Entry struct {
	blocklist.Entry
	Refusals
}

// Refusals are the requests that the asked enforcer has refused because of an entry; 0 when none are known.
type Refusals struct {
	Refused     int64     `json:"refused,omitzero"`
	LastRefused time.Time `json:"last_refused,omitzero"`
}

// UnmarshalJSON reads what MarshalJSON wrote. It ignores unknown fields.
func (e *Entry) UnmarshalJSON(text []byte) error {
	if err := e.Entry.UnmarshalJSON(text); err != nil {
		return err
	}
	return json.Unmarshal(text, &e.Refusals)
}

// MarshalJSON writes the entry as JSON, with its refusals if there are any.
func (e *Entry) MarshalJSON() ([]byte, error) {
	text, err := e.Entry.MarshalJSON()
	if err != nil || e.Refused == 0 {
		return text, err
	}
	more, err := json.Marshal(e.Refusals)
	if err != nil {
		return nil, err
	}
	return append(append(text[:len(text)-1], ','), more[1:]...), nil
}

// RefusedText describes the refusals as a sentence; empty without any.
func (e *Entry) RefusedText(t Times) string {
	if e.Refused == 0 {
		return ""
	}
	return fmt.Sprintf("It has refused %s, the last at %s.", output.Counted(int(e.Refused), "request"), t.At(e.LastRefused.UnixMilli()))
}

// Blocks reports whether the entry refuses someone, or would in mode enforce. Of manual entries only blocks do.
func (e *Entry) Blocks() bool { return e.Order == 0 || e.Order == blocklist.OrderBlock }

// Target returns the key as a user types it: with the name of its field where it is needed.
func (e *Entry) Target() string { return output.Printable(e.Entry.Target()) }

// Plain returns the key for programs: a manual entry's without its field.
func (e *Entry) Plain() string {
	if e.Order != 0 {
		return output.Printable(e.Key)
	}
	return e.Target()
}

// RuleName returns the name of the entry's rule.
func (e *Entry) RuleName() string { return output.Printable(e.Rule) }

// UntilText describes the end as a part of a sentence.
func (e *Entry) UntilText() string { return e.UntilIn(Times{}) }

// UntilIn is UntilText for a reader.
func (e *Entry) UntilIn(t Times) string {
	if e.Until == blocklist.Never {
		return "until someone ends it"
	}
	return "until " + t.Until(e.Until)
}

// WhyText describes the reason in a few words.
func (e *Entry) WhyText() string {
	if not := e.RefusesNot(); not != "" {
		return e.Reason() + " (" + not + ")"
	}
	return e.Reason()
}

// RefusesNot is why the entry refuses no one; empty if it refuses.
func (e *Entry) RefusesNot() string {
	switch {
	case e.Mode != blocklist.Shadow:
		return ""
	case e.Guarded:
		return "guarded by " + blocklist.GuardedBy(e.ByShare) + ": not refused"
	}
	return "shadow: not refused"
}

// WhyIn is WhyText for a reader. At a terminal it begins with what is not refused.
func (e *Entry) WhyIn(t Times) string {
	switch {
	case !t.Local() || e.Mode != blocklist.Shadow:
		return e.WhyText()
	case e.Guarded:
		return "guarded, would block: " + e.Reason()
	}
	return "would block: " + e.Reason()
}

// Reason describes the reason without the mode.
func (e *Entry) Reason() string {
	text := ""
	switch {
	case e.Source == blocklist.Manual:
		why := strings.TrimSuffix(e.Why, " by "+e.By) // the reason without --why ends in the user's name
		text = fmt.Sprintf("by %s: %s", output.Printable(e.By), output.Printable(why))
	case e.Limit != "":
		text = blocklist.Broke(e.Count, "hits", output.Printable(e.Limit))
		if e.Why != "" { // of a group: its addresses
			text += "; " + output.Printable(e.Why)
		}
	}

	if e.Level > 1 {
		text += fmt.Sprintf(", offence %d", e.Level)
	}
	return text
}

// Kind names a manual entry by the command that makes it.
func Kind(of blocklist.Kind) string {
	if of == blocklist.OrderPardon {
		return "unblock"
	}
	if of == blocklist.OrderConfirm {
		return "guard confirm"
	}
	return of.String()
}

// Event names an event as the topic events does; for a manual entry it is the command that made it.
func Event(what string, order blocklist.Kind) string {
	switch {
	case what == blocklist.EventOrdered && order != 0:
		return Kind(order)
	case what == blocklist.EventLifted && order == blocklist.OrderPause:
		return "resumed"
	case what == blocklist.EventLifted && order == blocklist.OrderConfirm:
		return "guard end"
	}
	return what
}

// Instant returns a time, rounded down to a second.
func Instant(t time.Time) string {
	return backtest.Instant(t.Truncate(time.Second).UnixMilli()).String()
}

// A Sending is the time of the last request that the asked enforcer refused.
type Sending struct {
	Last time.Time `json:"last"`
	Age  string    `json:"age"`
}
