package blocklist

import (
	"encoding/json"
	"fmt"
)

// The events of an entry or an order, as the topic events names them.
const (
	EventBlocked   = "blocked"   // a limit was broken
	EventExtended  = "extended"  // a block's end moved
	EventCorrected = "corrected" // late requests have shown that a block should have begun earlier; its id stays
	EventEnded     = "ended"     // its rule was removed
	EventLifted    = "lifted"    // a person removed it
	EventOrdered   = "ordered"   // a person ordered it
)

// AppendEvent appends an event of an entry at a time (Unix milliseconds) as one line of JSON, without the line's end:
// the JSON form of the entry, with "event" and "at".
func AppendEvent(b []byte, event string, at int64, e *Entry) ([]byte, error) {
	text, err := e.MarshalJSON()
	if err != nil {
		return b, fmt.Errorf("writing an event: %w", err)
	}

	what, err := json.Marshal(struct {
		Event string  `json:"event"`
		At    instant `json:"at"`
	}{event, instant(at)})
	if err != nil {
		return b, fmt.Errorf("writing an event: %w", err)
	}

	b = append(b, text[:len(text)-1]...)
	b = append(b, ',')
	return append(b, what[1:]...), nil
}

// InstantText returns a time (Unix milliseconds) as entries and events have it in JSON.
func InstantText(at int64) string {
	text, _ := instant(at).MarshalText() // never fails
	return string(text)
}
