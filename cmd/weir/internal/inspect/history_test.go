package inspect

import (
	"strings"
	"testing"
	"time"

	"weir/cmd/weir/internal/output"
	"weir/pkg/enforcer/past"
)

// An event that an aggregator has published twice is shown once.
func TestAStoryHasEachEventOnce(t *testing.T) {
	const blocked = `{"v":1,"id":"one","rule":"per-ip","key":"192.0.2.1","fields":{"ip":"192.0.2.1"},"from":"2026-03-03T08:00:00Z",` +
		`"until":"2026-03-03T08:10:00Z","decided":"2026-03-03T08:00:01Z","limit":"10/min","count":11,"level":1,"mode":"enforce","source":"verdict","by":"weir","why":"","event":"blocked","at":"2026-03-03T08:00:01Z"}`
	extended := strings.NewReplacer(`08:10:00Z`, `08:20:00Z`, `"blocked"`, `"extended"`).Replace(blocked)
	again := strings.Replace(blocked, `"at":"2026-03-03T08:00:01Z"`, `"at":"2026-03-03T08:00:09Z"`, 1)
	s := &story{query: past.Query{Key: "192.0.2.1"}, most: longestStory}
	for _, line := range []string{blocked, extended, again} {
		if err := s.read([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	s.trim()
	for form, want := range map[string]int{"text": 2, "json": 2, "csv": 3, "ecs": 2, "cef": 2} {
		var out strings.Builder
		if err := s.show(&out, form, nil, output.Screen{}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(out.String(), "\n"); got != want {
			t.Errorf("%s has %d lines, not %d:\n%s", form, got, want, out.String())
		}
	}
}

// Times may be given as people write them, in the zone of this machine.
func TestTimesOfPeople(t *testing.T) {
	zone := time.FixedZone("CET", 3600)
	now := time.Date(2026, 3, 3, 14, 30, 0, 0, zone)
	for text, want := range map[string]string{
		"2026-03-03T08:00:00Z": "2026-03-03T08:00:00Z", "2026-03-02 09:00": "2026-03-02T08:00:00Z", "2026-03-02": "2026-03-01T23:00:00Z",
		"14:00": "2026-03-03T13:00:00Z", "14:31": "2026-03-02T13:31:00Z", "90m": "2026-03-03T12:00:00Z", "2026-03-03T09:00:01": "2026-03-03T08:00:01Z",
	} {
		if at, err := readTime(text, now); err != nil || at.UTC().Format(time.RFC3339) != want {
			t.Errorf("%s: %s, %v", text, at, err)
		}
	}
	for _, text := range []string{"yesterday", "forever", "25:00", "2026-13-01"} {
		if at, err := readTime(text, now); err == nil {
			t.Errorf("%s: %s", text, at)
		}
	}
}

// In a terminal the times are those of its zone, which is named, and long lines are broken at spaces.
func TestAStoryInATerminal(t *testing.T) {
	s := &story{query: past.Query{}, most: 1}
	line := `{"v":1,"id":"one","rule":"per-ip","key":"192.0.2.1","fields":{"ip":"192.0.2.1"},"from":"2026-03-03T08:00:00Z","until":"2026-03-03T08:10:00Z",` +
		`"decided":"2026-03-03T08:00:01Z","limit":"10/min","count":11,"level":1,"mode":"enforce","source":"verdict","by":"weir","why":"","event":"blocked","at":"2026-03-03T08:00:01Z"}`
	if err := s.read([]byte(line)); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := s.show(&out, "text", time.FixedZone("CET", 3600), output.Screen{Columns: 80}); err != nil {
		t.Fatal(err)
	}
	if want := "Times are of CET (+01:00).\n2026-03-03 09:00:01  blocked  per-ip  192.0.2.1  until 2026-03-03 09:10:00, 11\n      hits broke 10/min\n"; out.String() != want {
		t.Errorf("%s", out.String())
	}
}
