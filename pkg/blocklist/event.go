package blocklist

import (
	"encoding/json"
	"fmt"
)

// What can happen to an entry or an order, as the topic events says it.
const (
	EventBlocked   = "blocked"   // a limit was broken
	EventExtended  = "extended"  // a block's end moved
	EventCorrected = "corrected" // late requests have shown that a block was to begin earlier; its id stays
	EventEnded     = "ended"     // its rule is gone
	EventLifted    = "lifted"    // a person took it off
	EventOrdered   = "ordered"   // a person ordered it
)

// AppendEvent appends what happened to an entry at a time (Unix milliseconds) as one line of JSON, without the line's
// end: the entry as it is shown, with "event" and "at".
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
