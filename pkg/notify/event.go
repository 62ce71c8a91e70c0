package notify

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"weir/pkg/blocklist"
)

// An Event is one event of the topic.
type Event struct {
	blocklist.Entry
	EventID string    // the same for an event that the topic has twice
	Event   string    // one of Events
	At      time.Time // when it happened
	Raw     []byte    // the line of JSON, as the topic has it
}

// maxEvent is the longest event in bytes.
const maxEvent = 64 << 10

var errEvent = errors.New("not an event")

// parseEvent reads a record of the topic. It keeps a copy of the line.
func parseEvent(line []byte) (*Event, error) {
	if len(line) > maxEvent {
		return nil, fmt.Errorf("%w: it has %d bytes, at most %d are read", errEvent, len(line), maxEvent)
	}
	var outer struct {
		Event string    `json:"event"`
		At    time.Time `json:"at"`
	}
	e := &Event{}
	if err := json.Unmarshal(line, &outer); err != nil {
		return nil, fmt.Errorf("%w: %w", errEvent, err)
	}
	if err := json.Unmarshal(line, &e.Entry); err != nil {
		return nil, fmt.Errorf("%w: %w", errEvent, err)
	}
	if outer.Event == "" || e.ID == "" || line[0] != '{' {
		return nil, fmt.Errorf("%w: it has no id or no event", errEvent)
	}

	e.Event, e.At, e.Raw = outer.Event, outer.At, slices.Clone(line)
	e.EventID = digest(e.ID, e.Event, fmt.Sprint(e.Until), fmt.Sprint(e.Ended))
	return e, nil
}

// counted is what the event is counted by.
func (e *Event) counted() CountOf {
	passes := e.Mode == blocklist.Shadow && !e.over()
	return CountOf{Rule: e.Rule, Event: e.Event, Guarded: passes && e.Guarded, ByShare: passes && e.Guarded && e.ByShare, Shadow: passes && !e.Guarded}
}

// digest returns an id made of texts: 32 hexadecimal digits. Keys are chosen by clients, so it is a hash in which no one
// can find two texts with one id.
func digest(texts ...string) string {
	h := sha256.New()
	for _, text := range texts {
		h.Write([]byte(text))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// wants reports whether the receiver gets an event.
func (r *Receiver) wants(e *Event) bool {
	if !slices.Contains(r.Events, e.Event) || !r.wantsMode(e) {
		return false
	}
	if e.Source == blocklist.Manual {
		return slices.Contains(r.Events, blocklist.EventOrdered) && slices.Contains(r.Orders, e.Order)
	}
	return len(r.Rules) == 0 || slices.ContainsFunc(r.Rules, func(pattern string) bool {
		match, _ := path.Match(pattern, e.Rule)
		return match
	})
}

// wantsMode reports whether the receiver gets events of the entry's mode. An entry that is guarded would be enforced: its
// readers have to know that it is not.
func (r *Receiver) wantsMode(e *Event) bool {
	return slices.Contains(r.Modes, e.Mode) || e.Guarded && slices.Contains(r.Modes, blocklist.Enforce)
}

// over reports whether an event ends its entry.
func (e *Event) over() bool {
	return e.Event == blocklist.EventEnded || e.Event == blocklist.EventLifted
}
