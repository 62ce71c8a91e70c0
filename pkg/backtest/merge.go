package backtest

import (
	"context"
	"math"
	"slices"
)

// A merge reads the hits of several logs in the order of their times, as far as the lines of each log are in order; the
// reorder buffer sorts the rest. A log is opened when the hits have come so near to its first time that its lines may
// be due.
type merge struct {
	waiting []*log    // not opened yet, by first time
	active  []*cursor // opened and not at their end
	late    int64     // milliseconds

	open  func(l *log, feeds int) *feed // starts a feed
	chunk func(c *chunk) error          // called with each chunk once, before its hits
	hit   func(c *chunk, h *hit, key []byte) error
}

// slack is by how much, in milliseconds, the merge itself may put hits out of order. It allows longer runs from one log
// at a time.
const slack = 1000

// A cursor is the position in a log.
type cursor struct {
	feed   *feed
	chunk  *chunk // nil before the first and after the last
	next   int    // hit of the chunk
	keyEnd uint32 // of the hit before
	due    []int64
	last   int64 // time of the last hit of the chunk before
}

// run counts all hits of all logs.
func (m *merge) run(ctx context.Context) error {
	for {
		if err := m.fetch(ctx); err != nil {
			return err
		}
		first, until := m.first()
		// A log that waits may have hits that are late by as much as late: it is opened that much earlier.
		if len(m.waiting) > 0 && (first == nil || m.waiting[0].first-m.late <= first.time()) {
			m.openNext()
			continue
		}
		if first == nil {
			return nil
		}

		// Count the hits of a cursor that are due by then.
		hits := first.chunk.hits
		for first.next < len(hits) && first.due[first.next] <= until {
			h := &hits[first.next]
			if err := m.hit(first.chunk, h, first.chunk.keys[first.keyEnd:h.keyEnd]); err != nil {
				return err
			}
			first.keyEnd = h.keyEnd
			first.next++
		}
	}
}

func (m *merge) openNext() {
	l := m.waiting[0]
	m.waiting = m.waiting[1:]
	m.active = append(m.active, &cursor{feed: m.open(l, len(m.active)+1), last: longAgo})
}

// fetch moves every cursor to a hit, and drops those at the end of their log.
func (m *merge) fetch(ctx context.Context) error {
	for _, c := range m.active {
		for c.chunk == nil || c.next == len(c.chunk.hits) {
			more, err := m.fetchChunk(ctx, c)
			if err != nil {
				return err
			}
			if !more {
				break
			}
		}
	}

	m.active = slices.DeleteFunc(m.active, func(c *cursor) bool { return c.chunk == nil })
	return nil
}

// fetchChunk receives the next chunk of a log; more is false when there is none.
func (m *merge) fetchChunk(ctx context.Context, c *cursor) (more bool, err error) {
	// The feed fills the chunk again: its hits have been counted.
	if c.chunk != nil {
		c.feed.free <- c.chunk
		c.chunk = nil
	}

	select {
	case c.chunk, more = <-c.feed.out:
	case <-ctx.Done():
		return false, ctx.Err()
	}

	if !more {
		return false, ctx.Err() // a feed also ends when ctx is done
	}
	select {
	case <-c.chunk.done:
	case <-ctx.Done():
		return false, ctx.Err()
	}

	c.next, c.keyEnd = 0, 0
	c.findDue(m.late)
	return true, m.chunk(c.chunk)
}

// findDue computes when each hit is due: at its time, or earlier when an earlier one follows in the chunk. So a line
// with a time far ahead does not hold up the lines after it, and a line far behind both its neighbours does not hurry
// those before it. It sets hit.ahead for hits far ahead of both their neighbours.
func (c *cursor) findDue(late int64) {
	hits := c.chunk.hits
	c.due = slices.Grow(c.due[:0], len(hits))[:len(hits)]

	// Backwards, so that least is the earliest time that still follows.
	next, least := int64(math.MaxInt64), int64(math.MaxInt64)
	for end := len(hits); end > 0; {
		start, at, before := end-1, hits[end-1].at, c.last
		for start > 0 && hits[start-1].at == at {
			start--
		}

		if start > 0 {
			before = hits[start-1].at
		}

		// A time far behind both neighbours must not make the hits before it due early.
		if at >= min(before, next)-late {
			least = min(least, at)
		}

		ahead := at > before+late && next < math.MaxInt64 && at > next+late
		for i := start; i < end; i++ {
			c.due[i], hits[i].ahead = min(least, max(at, before)), ahead
		}

		next, end = at, start
	}

	if len(hits) > 0 {
		c.last = hits[len(hits)-1].at
	}
}

// time is when the next hit is due.
func (c *cursor) time() int64 { return c.due[c.next] }

// first is the cursor whose next hit is due first, and the time until which its hits may be counted.
func (m *merge) first() (first *cursor, until int64) {
	until = math.MaxInt64
	if len(m.waiting) > 0 {
		until = m.waiting[0].first - m.late
	}

	for _, c := range m.active {
		switch {
		case first == nil:
			first = c
		case c.time() < first.time():
			until = min(until, first.time()+slack)
			first = c
		// Another log's next hit ends the run of the first one, give or take slack: without it a run would be one line,
		// and a switch costs more than a hit.
		default:
			until = min(until, c.time()+slack)
		}
	}

	return first, until
}
