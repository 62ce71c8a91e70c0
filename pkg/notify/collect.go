package notify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/internal/topic"
)

// A collecting is a round that is not complete yet.
type collecting struct {
	round
	partition *partition
	begun     *begun          // of a round that began before; nil else
	first     time.Time       // when its first event came
	seen      map[string]bool // events that are in it
}

func (c *collecting) empty() bool {
	return len(c.kept) == 0 && c.stale.Sum() == 0 && c.more.Sum() == 0
}

// complete reports whether the messages of the round can be made.
func (c *collecting) complete(now time.Time) bool {
	if c.begun != nil {
		return c.end >= c.begun.End
	}
	if c.empty() || now.Sub(c.first) < c.partition.Group {
		return false
	}
	// While there is no room for a message, further events come into this round.
	return c.partition.limiter.Tokens() >= 1 || c.partition.To.shape().state || now.Sub(c.first) > maxRoundWait
}

// begin ends the collecting of a new round.
func (c *collecting) begin(now time.Time, room int) {
	c.begun = &begun{End: c.end, At: now.UnixMilli(), Room: max(1, room), Sent: []string{}}
	c.settle()
}

// settle sets what decides about the messages, and counts the events that are too old by then.
func (c *collecting) settle() {
	c.at, c.room = c.begun.at(), c.begun.Room
	fresh := c.kept[:0:0]
	for _, e := range c.kept {
		if c.partition.tooOld(e, c.at) {
			c.stale.add(e.counted(), 1)
			continue
		}
		fresh = append(fresh, e)
	}
	c.partition.waits(len(fresh) - len(c.kept))
	c.kept = fresh
}

// tooOld reports whether an event is only summed up. The end of an incident is never too late.
func (r *Receiver) tooOld(e *Event, now time.Time) bool {
	s := r.To.shape()
	return now.Sub(e.At) > r.Stale && !s.state && (!s.perEvent || !e.over())
}

// fetch reads the next records.
func (c *collecting) fetch(ctx context.Context) error {
	p := c.partition
	records, err := p.reader.Fetch(ctx)
	switch {
	case errors.Is(err, topic.ErrTrimmed), errors.Is(err, topic.ErrPastEnd):
		// The topic no longer has these events, or was made again.
		span := p.reader.Span()
		p.logger.Warn("events were deleted before they were sent", "partition", p.claim.Partition, "from", p.reader.Next(), "to", span.Start)
		p.reader.SetNext(span.Start)
		c.begun, c.end = nil, span.Start
		return p.commit(ctx, c, span.Start, nil)
	case err != nil:
		return err
	}

	for i := range records {
		if !c.add(&records[i]) {
			p.reader.SetNext(records[i].Offset)
			break
		}
	}
	if len(records) == 0 {
		c.end = max(c.end, p.reader.Next()) // a compacted place
	}
	if c.begun != nil && c.end >= c.begun.End {
		c.settle()
	}
	return nil
}

// add takes the event of a record into the round, and reports whether it could: else the record belongs to the next one.
func (c *collecting) add(record *topic.Record) bool {
	p := c.partition
	if c.begun != nil && record.Offset >= c.begun.End {
		return false
	}
	e, err := parseEvent(record.Value)
	if err != nil {
		p.metrics.unreadable.Inc()
		p.faults.Note("parse", fmt.Errorf("notify: partition %d, offset %d: %w", p.claim.Partition, record.Offset, err))
	}
	if err != nil {
		c.end = record.Offset + 1
		return true
	}

	// The messages depend only on the records, so that a round that is made again is the same.
	s := p.To.shape()
	wanted := p.wants(e) && !c.seen[e.EventID] && (!s.perEvent || !e.over() || p.open.has(e.ID))
	full := len(c.kept) >= maxKept
	if wanted && full && (s.state || s.perEvent && e.over()) {
		c.first = time.Time{} // the round need not wait for others
		return false
	}

	c.end = record.Offset + 1
	if s.perEvent {
		p.open.note(e, wanted)
	}
	if !wanted {
		return true
	}
	if c.empty() {
		c.first = time.Now()
	}
	if full {
		c.more.add(e.counted(), 1)
		return true
	}
	if s.perEvent && !e.over() {
		p.open.resolved = min(p.open.resolved, e.Until-1) // it may end before that, and is not resolved yet
	}
	c.kept = append(c.kept, e)
	c.seen[e.EventID] = true
	p.waits(1)
	return true
}
