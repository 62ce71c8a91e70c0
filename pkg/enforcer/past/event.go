package past

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"weir/internal/address"
	"weir/pkg/blocklist"
)

// An Event is a record of the topic events.
type Event struct {
	blocklist.Entry
	What string // blocked, ordered, …
	At   int64  // when it happened, in Unix milliseconds
	Line []byte // the record, unchanged
}

// ErrNoEvent reports a record that is not an event.
var ErrNoEvent = errors.New("it is not an event")

// maxAt is the latest time that an event may have: the year 9999.
const maxAt = 253402300799_999

// Bounds of an event. Those that aggregators and enforcers write are much shorter.
const (
	maxLine   = 1 << 20
	maxFields = 64
)

// ReadEvent reads a record. The event refers to its bytes.
func ReadEvent(line []byte) (*Event, error) {
	var rest struct {
		Event string    `json:"event"`
		At    time.Time `json:"at"`
	}
	e := &Event{Line: line}
	if len(line) > maxLine {
		return nil, fmt.Errorf("%w: it has %d bytes", ErrNoEvent, len(line))
	}
	if json.Unmarshal(line, &rest) != nil || rest.Event == "" || json.Unmarshal(line, &e.Entry) != nil {
		return nil, ErrNoEvent
	}
	if len(e.Fields) > maxFields {
		return nil, fmt.Errorf("%w: it has %d fields", ErrNoEvent, len(e.Fields))
	}
	if e.What, e.At = rest.Event, rest.At.UnixMilli(); e.At < 0 || e.At > maxAt {
		return nil, fmt.Errorf("%w: its time is %s", ErrNoEvent, rest.At.Format(time.RFC3339))
	}
	return e, nil
}

// texts are the keys that people know the event by. An unblock is known by the key that it unblocks, too.
func (e *Event) texts() []string {
	if e.Order == blocklist.OrderPardon && e.Fields["key"] != "" {
		return []string{e.Key, e.Fields["key"]}
	}
	return []string{e.Key}
}

// prefixes returns the addresses that the event is about.
func (e *Event) prefixes() []netip.Prefix {
	var all []netip.Prefix
	add := func(text string) {
		if prefix, err := address.Parse(text); err == nil && text != "" {
			all = append(all, prefix)
		}
	}
	add(e.Fields["ip"])
	if e.Order == blocklist.OrderPardon {
		add(e.Fields["key"])
	}
	return all
}

// Identity is equal for two events that are the same: a topic may have an event twice.
func (e *Event) Identity() string {
	return bounded(fmt.Sprintf("%q %q %d %d %d", e.ID, e.What, e.From, e.Until, e.Ended))
}

// bounded returns a text that can be a part of a key: a long one as its checksum.
func bounded(text string) string {
	if len(text) <= maxTerm {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return string(sum[:])
}

// unit names what the event changes: a verdict by its id, a manual entry by its target, because the newest of one target
// applies. It is empty for an unblock, which is not active itself.
func (e *Event) unit() string {
	switch {
	case e.Source != blocklist.Manual:
		return bounded("v" + e.ID)
	case e.Order == blocklist.OrderPardon:
		return ""
	case e.Order == blocklist.OrderPause:
		return bounded("p" + e.Key)
	case e.Order == blocklist.OrderConfirm:
		return bounded("c" + e.Key)
	}
	// A block or an allow has one field.
	return bounded("o" + strings.Join(slices.Sorted(maps.Keys(e.Fields)), "\x00") + "\x00" + e.Key)
}

// span is the time in which the entry is active, as far as this event says. It has no length when the entry has ended.
func (e *Event) span(from int64) span {
	end := min(e.Until, maxAt)
	if e.Ended != 0 {
		end = min(end, e.Ended)
	}
	return span{from, max(from, end)}
}
