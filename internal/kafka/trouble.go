package kafka

import (
	"math/rand/v2"
	"time"
)

// The pause after a failed call, before its jitter of a half, doubles with each failure.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 2 * time.Second
)

// trouble records how long one thing has failed; its zero value means that it works.
type trouble struct {
	since time.Time
	times int
}

// another counts a failure and returns how long to pause: at least half of the doubled pause.
func (t *trouble) another(now time.Time) time.Duration {
	if t.times == 0 {
		t.since = now
	}
	pause := min(firstPause<<min(t.times, 10), lastPause)
	t.times++
	return pause/2 + rand.N(pause/2)
}
