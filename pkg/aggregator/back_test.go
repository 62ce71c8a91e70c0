package aggregator

import (
	"strings"
	"testing"

	"weir/pkg/blocklist"
)

// A rule that is gone and comes back: its blocks that still last are active again.
func TestARuleThatIsBackBlocksItsKeysAgain(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		l := newLab(t, 1, newMemoryStore())
		p := l.takes()
		l.hits("192.0.2.1", 5)
		l.settle(p)
		reload := func(text string) {
			t.Helper()
			if restarted {
				l.start(text)
				p = l.takes()
			} else if err := l.agg.Reload(parseRules(t, text)); err != nil {
				t.Fatal(err)
			}
			l.turn(p)
			l.settle(p)
		}
		reload(strings.Replace(labRules, "few", "fewer", 1))
		l.want("few/192.0.2.1", func(e *blocklist.Entry) bool { return e.Ended != 0 })
		reload(labRules)
		l.want("few/192.0.2.1", func(e *blocklist.Entry) bool { return e.Ended == 0 && e.Level == 1 })
		l.unblock("192.0.2.1")
		l.settle(p)
		reload(strings.Replace(labRules, "few", "fewer", 1))
		reload(labRules)
		l.want("few/192.0.2.1", func(e *blocklist.Entry) bool { return e.Ended != 0 })
	}
}
