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
			l.turn(budget-budget/lullAfter, false)
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

// While all families read at each beat, a lull lasts for several beats, until it is ended.
func TestLongLull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const budget = 20 * time.Millisecond
		l := newLull(budget)
		defer l.timer.Stop()
		for range 2 {
			began := time.Now()
			l.note()
			<-l.timer.C
			l.turn(budget-budget/lullAfter, true)
			<-l.timer.C
			l.turn(budget, true)
			if took := time.Since(began); l.lasts || took != lullLong*budget {
				t.Errorf("lasts is %v after %s", l.lasts, took)
			}
		}

		l.note()
		<-l.timer.C
		l.turn(budget, true)
		l.end()
		select {
		case <-l.timer.C:
			t.Error("a timer fires though the lull was ended")
		case <-time.After(time.Hour):
		}
		if l.lasts {
			t.Error("it lasts though it was ended")
		}
	})
}

func TestGrowth(t *testing.T) {
	const beat = 20 * time.Millisecond
	began := time.Now()
	for name, test := range map[string]struct {
		beat time.Duration
		at   []time.Duration // when the log was last found to have grown, at each reading
		want bool
	}{
		"at each beat":                 {beat, []time.Duration{1, 21, 41, 61}, true},
		"with a beat left out":         {beat, []time.Duration{1, 21, 61, 81}, true},
		"a reading that found nothing": {beat, []time.Duration{1, 21, 41, 61, 61}, false},
		"and few after it":             {beat, []time.Duration{1, 21, 41, 61, 61, 81, 101}, false},
		"lone lines":                   {beat, []time.Duration{1, 101, 201, 301, 401}, false},
		"no beat":                      {0, []time.Duration{1, 2, 3, 4, 5}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g, steady := growth{beat: test.beat}, false
			for _, at := range test.at {
				steady = g.note(began.Add(at * time.Millisecond))
			}
			if steady != test.want {
				t.Errorf("steady is %v", steady)
			}
		})
	}
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
