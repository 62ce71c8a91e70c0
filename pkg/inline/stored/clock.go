package stored

import (
	"sync/atomic"
	"time"
)

// A clock is the database's clock as this process knows it: its time when an answer was made, and the time since the
// answer came. So it is behind by the way of the fastest answer, and never ahead while both clocks run alike.
type clock struct {
	begun  time.Time    // monotonic
	offset atomic.Int64 // microseconds; 0 before the first answer, which no commit's time is then near
}

// now is in microseconds.
func (c *clock) now() int64 { return c.offset.Load() + time.Since(c.begun).Microseconds() }

// told sets the clock by an answer that came a moment ago. It is set back only by an answer that the clock was wrong.
func (c *clock) told(now int64, wrong bool) {
	offset := now - time.Since(c.begun).Microseconds()
	if wrong {
		c.offset.Store(offset)
		return
	}
	for {
		before := c.offset.Load()
		if offset <= before || c.offset.CompareAndSwap(before, offset) {
			return
		}
	}
}
