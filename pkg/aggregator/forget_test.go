package aggregator

import (
	"fmt"
	"testing"
	"time"

	"weir/pkg/hit"
)

// Keys whose hits count no more leave memory when others come, an hour later by the times of the hits, and their windows
// stay in the store.
func TestClearKeysLeaveMemory(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	l.hotKeys = 1000
	l.start(labRules)
	p := l.takes()
	p.keptClear = time.Hour
	at := l.now
	come := func(net, count int, after time.Duration) {
		at = at.Add(after)
		l.now = at
		l.send(fmt.Sprint("log", net), "few", func(w *hit.Writer) {
			for n := range count {
				w.Add(0, fmt.Appendf(nil, "192.0.%d.%d", net, n), at.UnixMilli(), 1)
			}
		})
		l.settle(p)
	}
	come(1, 100, 0)
	if come(2, 50, 30*time.Minute); p.windows.Len() != 150 {
		t.Errorf("after half an hour %d keys are in memory, not all", p.windows.Len())
	}
	if come(3, 200, time.Hour); p.windows.Len() != 250 {
		t.Errorf("after an hour and a half %d keys are in memory, not the last two lots", p.windows.Len())
	}
	if s, err := p.keyStatus("few", "192.0.1.1", nil); err == nil && s.Where == "hot" {
		t.Errorf("%+v", s)
	}
	come(1, 100, time.Second)
	if got := l.hitsOf("counted"); got != 450 {
		t.Errorf("%v hits are counted", got)
	}
}
