package aggregator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"weir/internal/kafka"
)

// A resumption is what has to be held against the log before counting goes on.
type resumption struct {
	checks bool      // the next record that is read is the one before ours, and must be the one that we know
	fresh  bool      // there was no checkpoint: that the log begins later is no loss
	end    int64     // of the log, as last seen
	short  time.Time // since when the log ends before what we have counted; a new leader may say so for a moment
}

const shortPatience = 15 * time.Second

// seek goes to where the counting goes on: one record earlier, where there is one, to see that the log is still the
// one that we know.
func (p *partition) seek() {
	p.resume.checks = p.last >= 0
	if p.resume.checks {
		p.log.SetNext(p.last)
		return
	}
	p.log.SetNext(p.offset)
}

// fetch returns the next records that are to be counted. A log that is not the one that we know begins a new
// generation.
func (p *partition) fetch(ctx context.Context) ([]kafka.Record, error) {
	records, err := p.read(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}

	span := p.log.Span()
	switch {
	case errors.Is(err, kafka.ErrTrimmed):
		p.trimmed(span)
		return nil, nil
	case errors.Is(err, kafka.ErrPastEnd):
		return nil, p.newGeneration(ctx, span.Start, fmt.Sprintf("the log ends at %d, and we have counted up to %d", span.End, p.offset))
	case err != nil:
		p.seek()        // by the time it can be read it may be another
		return nil, nil //nolint:nilerr // the reader has said it, and paused
	case span.End < p.offset:
		return nil, p.tooShort(ctx, span)
	case span.End < p.resume.end && !p.resume.checks:
		p.resume.end = span.End
		p.seek()
		return nil, nil
	}

	p.looked, p.found = p.config.Now(), true
	p.resume.short = time.Time{}
	p.resume.end, p.resume.fresh = span.End, false
	if p.replay.end < 0 {
		p.replay.end = span.End
	}
	if p.resume.checks {
		return p.compare(ctx, records, span)
	}

	return records, nil
}

// read fetches, and answers meanwhile: an idle log has the fetch wait for half a second.
func (p *partition) read(ctx context.Context) (records []kafka.Record, err error) {
	fetched := make(chan struct{})
	go func() {
		defer close(fetched)
		records, err = p.log.Fetch(ctx)
	}()

	for {
		select {
		case <-fetched:
			return records, err
		case ask := <-p.asks:
			ask(ctx)
		}
	}
}

func (p *partition) tooShort(ctx context.Context, span kafka.Span) error {
	now := p.config.Now()
	if p.resume.short.IsZero() {
		p.resume.short = now
		p.seek()
	}
	if now.Sub(p.resume.short) < shortPatience {
		return nil
	}
	return p.newGeneration(ctx, span.Start, fmt.Sprintf("the log ends at %d, and we have counted up to %d", span.End, p.offset))
}

// compare holds the record before ours against the one that we know, and returns those behind it.
func (p *partition) compare(ctx context.Context, records []kafka.Record, span kafka.Span) ([]kafka.Record, error) {
	if len(records) == 0 {
		return nil, nil
	}
	if first := &records[0]; first.Offset == p.last {
		if xxhash.Sum64(first.Value) != p.checksum {
			return nil, p.newGeneration(ctx, span.Start, fmt.Sprintf("record %d is another than it was", p.last))
		}
		records = records[1:]
	}
	p.resume.checks = false
	return records, nil
}

// trimmed goes on where the log begins now.
func (p *partition) trimmed(span kafka.Span) {
	if lost := span.Start - p.offset; lost > 0 && !p.resume.fresh {
		p.logger.Error("the log begins later than we have counted: hits were lost before they were read", "records", lost, "counted up to", p.offset, "begins at", span.Start)
		p.metrics.lost.Add(float64(lost))
	}
	p.offset = max(p.offset, span.Start)
	p.last, p.ahead = -1, nil
	p.seek()
}

// newGeneration begins at the start of a log that is another than the one before. Hits of that log that were counted stay
// counted: it is written first, and the sources' positions keep their batches from being counted twice.
func (p *partition) newGeneration(ctx context.Context, start int64, why string) error {
	if err := p.windows.Load(ctx); err != nil { // what waits is of the log before
		return err
	}
	if err := p.countWaiting(ctx); err != nil {
		return err
	}

	for p.windows.Dirty() > 0 {
		if err := p.writeBack(ctx); err != nil {
			return err
		}
	}

	next := checkpoint{generation: p.nextGeneration(), offset: start, last: -1, reached: p.reached, told: p.list.told(), sources: p.sources.Append(nil)}
	p.walk.note.since = unknown
	if err := p.writeCheckpoint(ctx, next); err != nil {
		return err
	}

	p.logger.Error("the log of hits is another than it was: it is read from its beginning", "why", why, "generation", next.generation)
	p.metrics.taken.WithLabelValues("generation").Inc()
	p.offset, p.last, p.ahead, p.replay = start, -1, nil, replay{end: unknown}
	p.resume = resumption{}
	p.seek()
	return nil
}

// nextGeneration is greater than any that this partition has had, when the store has forgotten them too.
func (p *partition) nextGeneration() int64 {
	return max(p.stored.generation+1, p.config.Now().Unix())
}
