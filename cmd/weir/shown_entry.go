package main

import (
	"fmt"

	"weir/pkg/backtest"
	"weir/pkg/blocklist"
)

// A shownEntry is an entry, or an order that is shown as one, in the words of people.
type shownEntry struct{ blocklist.Entry }

// blocks says whether it refuses someone, or would: no order but a block does.
func (e *shownEntry) blocks() bool { return e.Order == 0 || e.Order == blocklist.OrderBlock }

// target is the key as one types it: what is no address with the name of its field.
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

// untilWords says until when, as part of a sentence.
func (e *shownEntry) untilWords() string {
	if e.Until == blocklist.Never {
		return "until someone ends it"
	}
	return "until " + backtest.Instant(e.Until).String()
}

// whyWords says in a few words what led to it.
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

// eventWord is what happened, in a word of the topic events; an order is called what it orders.
func eventWord(what string, order blocklist.Kind) string {
	switch {
	case what == blocklist.EventOrdered && order != 0:
		return order.String()
	case what == blocklist.EventLifted && order == blocklist.OrderPause:
		return "resumed"
	}
	return what
}
