package files

import "time"

const (
	lullAfter = 10  // the part of the latency budget for which notifications are taken before a lull
	lullMost  = 256 // notifications in that time: there are so many that the system's queue might overflow in a lull
	lullLong  = 10  // beats, while all families read at each beat
)

// A lull is a time in which no notifications are taken, up to the next beat. Families that were just woken read at the
// beat, and the system merges the notifications of one file that are not taken. While all families read at each beat
// anyway, it lasts for several beats, or until one of them does so no more.
type lull struct {
	budget time.Duration // 0: there is none
	timer  *time.Timer
	taken  int // notifications since the last lull
	lasts  bool
}

func newLull(budget time.Duration) *lull {
	l := &lull{budget: budget, timer: time.NewTimer(time.Hour)}
	l.timer.Stop()
	return l
}

// note is called for each notification that was taken.
func (l *lull) note() {
	if l.taken++; l.taken == 1 && l.budget > 0 {
		l.timer.Reset(l.budget / lullAfter)
	}
}

// turn is called when the timer fires. It ends the lull, or begins one until the next beat, or a long one.
func (l *lull) turn(beat time.Duration, long bool) {
	l.lasts = !l.lasts && l.taken < lullMost
	l.taken = 0
	if l.lasts && long {
		beat += (lullLong - 1) * l.budget
	}
	if l.lasts {
		l.timer.Reset(beat)
	}
}

// end ends the lull, if there is one.
func (l *lull) end() {
	if l.lasts {
		l.lasts = false
		l.timer.Stop()
	}
}
