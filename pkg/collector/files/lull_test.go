package files

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestLull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const budget = 20 * time.Millisecond
		l := newLull(budget)
		defer l.timer.Stop()
		turn := func(want bool, after time.Duration) {
			t.Helper()
			began := time.Now()
			<-l.timer.C
			l.turn(budget - budget/lullAfter)
			if took := time.Since(began); l.lasts != want || took != after {
				t.Errorf("lasts is %v after %s, want %v after %s", l.lasts, took, want, after)
			}
		}
		l.note()
		l.note()
		turn(true, 2*time.Millisecond)
		turn(false, 18*time.Millisecond)
		select {
		case <-l.timer.C:
			t.Error("a timer fires though nothing has come")
		case <-time.After(time.Hour):
		}

		for range lullMost {
			l.note()
		}
		turn(false, 2*time.Millisecond)
		l.note()
		turn(true, 2*time.Millisecond)
	})
}

func TestNoLullWithoutABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLull(0)
		l.note()
		select {
		case <-l.timer.C:
			t.Error("a lull begins")
		case <-time.After(time.Hour):
		}
	})
}
