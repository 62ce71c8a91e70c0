package wait_test

import (
	"testing"
	"testing/synctest"
	"time"

	"weir/test/wait"
)

// A failing is a test that remembers that it failed.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Helper()               {}
func (f *failing) Fatalf(string, ...any) { f.failed = true; panic(f) }

func TestItWaitsForAConditionButNotForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		wait.Until(t, "a second has passed", func() bool { return time.Since(began) >= time.Second })
		if waited := time.Since(began); waited > 2*time.Second {
			t.Errorf("it waited %v", waited)
		}

		f := &failing{TB: t}
		defer func() {
			if recover() != f || !f.failed {
				t.Error("a condition that stays false does not fail the test")
			}
		}()
		wait.Until(f, "never", func() bool { return false })
	})
}
