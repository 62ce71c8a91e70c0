package shown

import (
	"testing"
	"time"
)

// People read local times with the time that is left; programs read RFC 3339.
func TestTimesForPeopleAndPrograms(t *testing.T) {
	now := time.Date(2026, 3, 3, 9, 0, 0, 0, time.FixedZone("CET", 3600))
	local := LocalTimes(now)
	for after, want := range map[time.Duration][2]string{
		40 * time.Second:                   {"09:00:40 (40s left)", "2026-03-03T08:00:40Z"},
		3*time.Hour + 58*time.Minute:       {"12:58:00 (3h58m left)", "2026-03-03T11:58:00Z"},
		15*time.Hour + 30*time.Minute:      {"4 Mar 00:30 (15h30m left)", "2026-03-03T23:30:00Z"},
		-time.Hour:                         {"08:00:00", "2026-03-03T07:00:00Z"},
		400 * 24 * time.Hour:               {"7 Apr 2027 09:00 (400d0h left)", "2027-04-07T08:00:00Z"},
		9*time.Minute + 50*time.Second + 1: {"09:09:50 (9m50s left)", "2026-03-03T08:09:50Z"},
	} {
		at := now.Add(after).UnixMilli()
		if got := local.Until(at); got != want[0] {
			t.Errorf("%s: %q, want %q", after, got, want[0])
		}
		if got := (Times{}).Until(at); got != want[1] {
			t.Errorf("%s: %q, want %q", after, got, want[1])
		}
	}
	if got := local.Zone("UNTIL") + (Times{}).Zone("UNTIL"); got != "UNTIL (CET)UNTIL" {
		t.Error(got)
	}
}
