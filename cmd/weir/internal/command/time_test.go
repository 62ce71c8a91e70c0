package command

import (
	"testing"
	"time"
)

// Times may be given as people write them, in the zone of this machine.
func TestTimesOfPeople(t *testing.T) {
	zone := time.FixedZone("CET", 3600)
	now := time.Date(2026, 3, 3, 14, 30, 0, 0, zone)
	for text, want := range map[string]string{
		"2026-03-03T08:00:00Z": "2026-03-03T08:00:00Z", "2026-03-02 09:00": "2026-03-02T08:00:00Z", "2026-03-02": "2026-03-01T23:00:00Z",
		"14:00": "2026-03-03T13:00:00Z", "14:31": "2026-03-02T13:31:00Z", "14:00:59": "2026-03-03T13:00:59Z", "14:30:01": "2026-03-02T13:30:01Z", "90m": "2026-03-03T12:00:00Z", "2026-03-03T09:00:01": "2026-03-03T08:00:01Z",
	} {
		if at, err := Time(text, now); err != nil || at.UTC().Format(time.RFC3339) != want {
			t.Errorf("%s: %s, %v", text, at, err)
		}
	}
	for _, text := range []string{"yesterday", "forever", "25:00", "2026-13-01"} {
		if at, err := Time(text, now); err == nil {
			t.Errorf("%s: %s", text, at)
		}
	}
}
