package publishing

import (
	"testing"
	"time"
)

// A new leader that does not know the log's end for a moment is no other log; one that never does is.
func TestALogThatEndsTooEarlyIsDoubtedFirst(t *testing.T) {
	var d doubt
	at := time.Now()
	for _, step := range []struct {
		after time.Duration
		short bool
		lasts bool
	}{{0, true, false}, {shortPatience - 1, true, false}, {shortPatience, false, false}, {shortPatience + 1, true, false}, {2*shortPatience + 1, true, true}} {
		if d.lasts(step.short, at.Add(step.after)) != step.lasts {
			t.Errorf("after %v: %v", step.after, !step.lasts)
		}
	}
}
