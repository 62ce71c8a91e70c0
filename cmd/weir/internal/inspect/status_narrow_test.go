package inspect

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"weir/cmd/weir/internal/output"
	"weir/cmd/weir/internal/shown"
)

// At a terminal a table with short paths fits 80 columns. Rules are shown where they differ, and in a pipe.
func TestTheTableOfPartsFitsATerminal(t *testing.T) {
	well := true
	parts := []partStatus{
		{Part: "collector", Address: "127.0.0.1:7401", Reached: true, Rules: "a9478fda571e9b93", CaughtUp: &well, Status: []byte(`{"sources":[{"source":"file-1","kind":"file","requests":3,"logs":[{"log":"access.log","newest":"2026-03-03T08:00:00Z"}]}]}`)},
		{Part: "aggregator", Address: "127.0.0.1:7411", Reached: true, Rules: "a9478fda571e9b93", CaughtUp: &well, Status: []byte(`{"partitions":[{"partition":0,"hot":3,"reached":"2026-03-03T08:00:00Z"}]}`)},
		{Part: "enforcer", Address: "127.0.0.1:7421", Reached: true, Rules: "a9478fda571e9b93", CaughtUp: &well, Status: []byte(`{"whole":true,"version":"0ad582187cd89bda-1795492815874.8","age":"9s"}`)},
	}
	for _, c := range []struct {
		times  shown.Times
		differ bool
		rules  bool
	}{{shown.LocalTimes(time.Now()), false, false}, {shown.LocalTimes(time.Now()), true, true}, {shown.Times{}, false, true}} {
		s := &status{Parts: parts, times: c.times, RulesDiffer: c.differ}
		var b strings.Builder
		output.Table(&b, s.partRows())
		if got := strings.Contains(b.String(), "a9478fda571e9b93") && strings.Contains(b.String(), "0ad582187cd89bda"); got != c.rules {
			t.Errorf("%+v: %s", c, b.String())
		}
		for line := range strings.Lines(b.String()) {
			if width := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width > 80 && !c.rules {
				t.Errorf("%d columns: %s", width, line)
			}
		}
	}
}
