package notify

import (
	"context"
	"errors"
	"slices"
	"time"

	"weir/internal/topic"
)

// incidents are the entries of a partition whose incidents may be open. There is no event when an entry reaches its end,
// so the end is remembered here. After a restart the incidents are found in the topic again.
type incidents struct {
	until    map[string]int64 // by the entry's id, Unix ms
	next     int64            // no entry ends before
	resolved int64            // Unix ms: entries that ended by then are resolved, as the last commit states
}

func newIncidents(resolved int64) *incidents {
	return &incidents{until: map[string]int64{}, resolved: resolved}
}

// Bounds of incidents and of finding them again.
const (
	maxOpen     = 100_000
	lookBack    = 7 * 24 * time.Hour
	lookRecords = 200_000
	endsAtOnce  = 10 // incidents that are resolved before further records are read
)

// has reports whether an entry's incident may be open.
func (i *incidents) has(id string) bool {
	_, open := i.until[id]
	return open
}

// note follows an event.
func (i *incidents) note(e *Event, wanted bool) {
	switch {
	case e.over():
		delete(i.until, e.ID)
	case i.has(e.ID), wanted && len(i.until) < maxOpen:
		i.until[e.ID] = e.Until
		i.next = min(i.next, e.Until)
	}
}

// ended returns entries that have ended, except those with a message that is still to be sent.
func (i *incidents) ended(now int64, most int, unsent []*Event) (ids []string) {
	if now < i.next {
		return nil
	}
	i.next = now + 3_600_000 // looked at again by then, whatever comes
	for id, until := range i.until {
		switch {
		case until > now:
			i.next = min(i.next, until)
		case len(ids) < most && !slices.ContainsFunc(unsent, func(e *Event) bool { return e.ID == id }):
			ids = append(ids, id)
		default:
			i.next = now
		}
	}
	return ids
}

// find reads the events before the position again, to know which incidents are open.
func (p *partition) find(ctx context.Context, span topic.Span) error {
	from, err := p.log.OffsetAt(ctx, p.topic, p.claim.Partition, time.Now().Add(-lookBack))
	if err != nil {
		return err
	}
	reader := p.log.Reader(p.topic, p.claim.Partition, max(span.Start, from, p.base-lookRecords), fetchBytes)
	for reader.Next() < p.base && ctx.Err() == nil {
		records, err := reader.Fetch(ctx)
		if errors.Is(err, topic.ErrTrimmed) || errors.Is(err, topic.ErrPastEnd) {
			return nil // what is left begins after the position
		}
		if err != nil {
			return err
		}
		for i := range records {
			if e, err := parseEvent(records[i].Value); err == nil && records[i].Offset < p.base {
				p.open.note(e, p.wants(e))
			}
		}
	}
	for id, until := range p.open.until {
		if until <= p.open.resolved {
			delete(p.open.until, id)
		}
	}
	return nil
}

// resolve ends the incidents of entries that have ended, a few at a time.
func (p *partition) resolve(ctx context.Context, c *collecting) error {
	if !p.To.shape().perEvent || c.begun != nil {
		return nil
	}
	now := time.Now()
	ids := p.open.ended(now.UnixMilli(), min(endsAtOnce, int(p.limiter.Tokens())), c.kept)
	for _, id := range ids {
		e := &Event{EventID: digest(id, "reached its end")}
		e.ID, e.Rule = id, ""
		m := p.message("", []*Event{e}, &round{at: now})
		m.resolve = true
		if err := p.deliver(ctx, m); err != nil {
			return nil //nolint:nilerr // the context is done; the next owner resolves it
		}
		delete(p.open.until, id)
	}
	if len(ids) == 0 || p.open.next <= now.UnixMilli() {
		return nil
	}
	p.open.resolved = now.UnixMilli()
	return p.commitSent(ctx, c, nil)
}
