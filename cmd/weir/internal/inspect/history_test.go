package inspect

import (
	"strings"
	"testing"

	"weir/cmd/weir/internal/shown"
)

// An event that an aggregator has published twice is shown to people once, and to programs twice.
func TestAStoryHasEachEventOnce(t *testing.T) {
	const blocked = `{"v":1,"id":"one","rule":"per-ip","key":"192.0.2.1","fields":{"ip":"192.0.2.1"},"from":"2026-03-03T08:00:00Z",` +
		`"until":"2026-03-03T08:10:00Z","decided":"2026-03-03T08:00:01Z","limit":"10/min","count":11,"level":1,"mode":"enforce","source":"verdict","by":"weir","why":"","event":"blocked","at":"2026-03-03T08:00:01Z"}`
	extended := strings.NewReplacer(`08:10:00Z`, `08:20:00Z`, `"blocked"`, `"extended"`).Replace(blocked)
	again := strings.Replace(blocked, `"at":"2026-03-03T08:00:01Z"`, `"at":"2026-03-03T08:00:09Z"`, 1)
	s := &story{of: shown.NewMatch("192.0.2.1")}
	for _, line := range []string{blocked, extended, again} {
		if err := s.read([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	for form, want := range map[string]int{"text": 2, "json": 3} {
		var out strings.Builder
		if err := s.show(&out, form); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(out.String(), "\n"); got != want {
			t.Errorf("%s has %d lines, not %d:\n%s", form, got, want, out.String())
		}
	}
}
