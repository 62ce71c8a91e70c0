package main

import (
	"fmt"

	"weir/pkg/backtest"
	"weir/pkg/blocklist"
)

// A shownEntry describes an entry to people; a manual entry is shown in the same form.
type shownEntry struct{ blocklist.Entry }

// blocks reports whether the entry refuses someone, or would in mode enforce. Of manual entries only blocks do.
func (e *shownEntry) blocks() bool { return e.Order == 0 || e.Order == blocklist.OrderBlock }

// target returns the key as a user types it: with the name of its field unless it is an address.
func (e *shownEntry) target() string {
	if e.Order != blocklist.OrderBlock && e.Order != blocklist.OrderAllow {
		return printable(e.Key)
	}
	for name := range e.Fields {
		if name != "ip" {
			return printable(name + ":" + e.Key)
		}
	}
	return printable(e.Key)
}

// untilWords describes the end as a part of a sentence.
func (e *shownEntry) untilWords() string {
	if e.Until == blocklist.Never {
		return "until someone ends it"
	}
	return "until " + backtest.Instant(e.Until).String()
}

// whyWords describes the reason in a few words.
func (e *shownEntry) whyWords() string {
	text := ""
	switch {
	case e.Source == blocklist.Manual:
		text = fmt.Sprintf("by %s: %s", printable(e.By), printable(e.Why))
	case e.Limit != "":
		text = fmt.Sprintf("%d hits broke %s", e.Count, e.Limit)
	}

	if e.Level > 1 {
		text += fmt.Sprintf(", offence %d", e.Level)
	}
	if e.Mode == blocklist.Shadow {
		text += " (shadow: not refused)"
	}

	return text
}

// eventWord names an event as the topic events does; for a manual entry it is the kind of the entry.
func eventWord(what string, order blocklist.Kind) string {
	switch {
	case what == blocklist.EventOrdered && order != 0:
		return order.String()
	case what == blocklist.EventLifted && order == blocklist.OrderPause:
		return "resumed"
	}
	return what
}
