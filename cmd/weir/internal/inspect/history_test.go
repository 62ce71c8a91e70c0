package inspect

import (
	"strings"
	"testing"
	"time"

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
		if err := s.show(&out, form, nil); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(out.String(), "\n"); got != want {
			t.Errorf("%s has %d lines, not %d:\n%s", form, got, want, out.String())
		}
	}
}

// In a terminal the times are those of its zone, which is named.
func TestAStoryInATerminal(t *testing.T) {
	s := &story{query: past.Query{}, most: 1}
	line := `{"v":1,"id":"one","rule":"per-ip","key":"192.0.2.1","fields":{"ip":"192.0.2.1"},"from":"2026-03-03T08:00:00Z","until":"2026-03-03T08:10:00Z",` +
		`"decided":"2026-03-03T08:00:01Z","limit":"10/min","count":11,"level":1,"mode":"enforce","source":"verdict","by":"weir","why":"","event":"blocked","at":"2026-03-03T08:00:01Z"}`
	if err := s.read([]byte(line)); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := s.show(&out, "text", time.FixedZone("CET", 3600)); err != nil {
		t.Fatal(err)
	}
	if want := "Times are of CET (+01:00).\n2026-03-03 09:00:01  blocked  per-ip  192.0.2.1  until 2026-03-03 09:10:00, 11 hits broke 10/min\n"; out.String() != want {
		t.Errorf("%s", out.String())
	}
}
