package command

import (
	"fmt"
	"time"

	"weir/internal/duration"
)

// Time reads a time that a person typed; none is the zero time.
func Time(text string, now time.Time) (time.Time, error) {
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
	for _, layout := range []string{"15:04", "15:04:05"} {
		clock, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		at := time.Date(now.Year(), now.Month(), now.Day(), clock.Hour(), clock.Minute(), clock.Second(), 0, now.Location())
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
