package kafka

import (
	"context"
	"math/rand/v2"
	"time"
)

// The pause after a failed call, before its jitter of a half, doubles with each failure.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 2 * time.Second
)

// trouble is how long one thing has failed; its zero value is that it works.
type trouble struct {
	since time.Time
	times int
}

// another counts a failure and says how long to pause: at least half of what the doubling gives.
func (t *trouble) another(now time.Time) time.Duration {
	if t.times == 0 {
		t.since = now
	}
	pause := min(firstPause<<min(t.times, 10), lastPause)
	t.times++
	return pause/2 + rand.N(pause/2)
}

// sleep waits, or less when the context ends.
func sleep(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
