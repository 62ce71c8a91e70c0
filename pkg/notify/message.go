package notify

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// A Message is what a receiver gets at once: about one rule, or a sum of what could not be sent singly.
type Message struct {
	ID       string // the same when it is sent again
	Receiver string
	Severity string
	Rule     string    // manual for manual entries; empty in a sum of several rules
	Time     time.Time // when it was made; the same when it is sent again
	Events   []*Event  // oldest first
	Counts   Counts    // of all events that it is about, also of those that are not in Events
	Reason   string    // of a sum: why there is one
	Test     bool

	resolve bool // ends an incident
}

// Counts are numbers of events by rule and event.
type Counts map[CountOf]int

// A CountOf is what events are counted by.
type CountOf struct {
	Rule, Event string
	Guarded     bool // the guard of the rule held the blocks back
	ByShare     bool // they are beyond the guard's most_share
	Shadow      bool // the rule is in shadow mode
}

// maxCounts bounds the number of different rules and events in Counts.
const maxCounts = 256

func (c Counts) add(of CountOf, n int) {
	if _, known := c[of]; !known && len(c) >= maxCounts {
		of.Rule = "other rules"
	}
	c[of] += n
}

func (c Counts) addAll(other Counts) {
	for of, n := range other {
		c.add(of, n)
	}
}

// Sum is the number of events.
func (c Counts) Sum() (sum int) {
	for _, n := range c {
		sum += n
	}
	return sum
}

// More is how many events are counted and not in Events.
func (m *Message) More() int { return m.Counts.Sum() - len(m.Events) }

// The reasons for a sum.
const (
	reasonStale = "these could not be sent in time"
	reasonMany  = "there were too many to send them singly"
)

// A shape is how events become messages.
type shape struct {
	perEvent bool // each entry is a message of its own
	state    bool // the receiver keeps the state of entries: nothing is summed up or limited
	events   int  // of a message at most
	split    bool // more events are a further message; else they are only counted
}

// A round is the events between two positions of a partition.
type round struct {
	partition int
	base, end int64
	at        time.Time
	room      int // for messages, at least 1
	kept      []*Event
	stale     Counts // events that are too old to be sent singly
	more      Counts // events that found no place in kept
}

// messages makes the messages of a round. The same round always leads to the same messages.
func (r *Receiver) messages(of *round) []*Message {
	var all []*Message
	kept := slices.Clone(of.kept)
	var late []*Message // what is never summed up
	switch s := r.To.shape(); {
	case s.state:
		late = r.chunks("", kept, s, of)
	case s.perEvent:
		kept, late = r.single(kept, of)
		for _, e := range kept {
			all = append(all, r.message(e.Rule, []*Event{e}, of))
		}
	default:
		all = append(all, r.byRule(kept, s, of)...)
	}

	all = r.within(all, of)
	return append(all, late...)
}

// within sums up the messages for which there is no room, together with the events that were only counted.
func (r *Receiver) within(all []*Message, of *round) []*Message {
	reason := reasonMany
	if of.stale.Sum() > 0 {
		reason = reasonStale
	}
	rest := Counts{}
	rest.addAll(of.stale)
	rest.addAll(of.more)

	room := max(1, of.room)
	if rest.Sum() > 0 {
		room--
	}
	if len(all) > room {
		room = max(0, of.room-1)
		for _, m := range all[room:] {
			rest.addAll(m.Counts)
		}
		all = all[:room]
	}
	if rest.Sum() > 0 {
		all = append(all, r.sum(of, rest, reason))
	}
	return all
}

// byRule makes messages for each rule, in the order of their first events.
func (r *Receiver) byRule(events []*Event, s shape, of *round) (all []*Message) {
	var rules []string
	by := map[string][]*Event{}
	for _, e := range events {
		if by[e.Rule] == nil {
			rules = append(rules, e.Rule)
		}
		by[e.Rule] = append(by[e.Rule], e)
	}
	for _, rule := range rules {
		all = append(all, r.chunks(rule, by[rule], s, of)...)
	}
	return all
}

// chunks makes messages of events, as many as the shape requires.
func (r *Receiver) chunks(rule string, events []*Event, s shape, of *round) (all []*Message) {
	if !s.split && len(events) > 0 {
		m := r.message(rule, events, of)
		m.Events = m.Events[:min(len(m.Events), s.events)]
		return []*Message{m}
	}
	for part := range slices.Chunk(events, s.events) {
		all = append(all, r.message(rule, part, of))
	}
	return all
}

// single returns the last event of each entry that lasts, and the messages that end incidents.
func (r *Receiver) single(events []*Event, of *round) (last []*Event, ends []*Message) {
	seen := map[string]bool{}
	for _, e := range slices.Backward(events) {
		if seen[e.ID] {
			continue
		}
		seen[e.ID] = true
		if !e.over() {
			last = append(last, e)
			continue
		}
		m := r.message(e.Rule, []*Event{e}, of)
		m.resolve = true
		ends = append(ends, m)
	}

	slices.Reverse(last)
	slices.Reverse(ends)
	return last, ends
}

func (r *Receiver) message(rule string, events []*Event, of *round) *Message {
	m := &Message{Receiver: r.Name, Severity: r.Severity, Rule: rule, Time: of.at, Events: events, Counts: Counts{}}
	ids := []string{r.Name}
	for _, e := range events {
		m.Counts.add(e.counted(), 1)
		ids = append(ids, e.EventID)
	}
	m.ID = digest(ids...)
	return m
}

func (r *Receiver) sum(of *round, counts Counts, reason string) *Message {
	m := &Message{Receiver: r.Name, Severity: r.Severity, Time: of.at, Counts: counts, Reason: reason}
	m.ID = digest(r.Name, reason, strconv.Itoa(of.partition), fmt.Sprint(of.base), fmt.Sprint(of.end))
	return m
}

// TestMessage returns a message that asks for nothing.
func TestMessage(r *Receiver, now time.Time) *Message {
	return &Message{ID: digest(r.Name, "test", now.String()), Receiver: r.Name, Severity: r.Severity, Time: now, Counts: Counts{}, Test: true}
}
