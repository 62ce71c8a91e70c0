package tables_test

import (
	"testing"
	"testing/synctest"
	"time"

	"weir/pkg/inline/tables"
)

func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s tables.Silence
		for _, step := range []struct {
			pause    time.Duration
			answered bool
			ends     bool
		}{
			{0, false, false},
			{900 * time.Millisecond, false, false},
			{0, true, false},
			{500 * time.Millisecond, false, false}, // another silence
			{time.Second, false, true},
			{time.Second, false, false}, // not at once again
			{10 * time.Second, false, true},
			{0, true, false},
		} {
			time.Sleep(step.pause)
			if step.answered {
				s.Answered()
			} else if ends := s.Unanswered(); ends != step.ends {
				t.Errorf("%+v: %v", step, ends)
			}
		}
	})
}
