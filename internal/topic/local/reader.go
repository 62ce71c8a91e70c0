package local

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"weir/internal/sleep"
	"weir/internal/topic"
)

// A Reader reads one partition.
type Reader struct {
	log   *Log
	topic string
	n     int
	most  int

	of      *partition // nil until it was found
	next    int64
	span    topic.Span
	records []topic.Record
	page    page
	timer   *time.Timer
	pause   time.Duration // that it waits for a record
}

var _ topic.Reader = (*Reader)(nil)

// Reader implements topic.Log.
func (l *Log) Reader(name string, partition int, offset int64, maxBytes int) topic.Reader {
	if maxBytes <= 0 {
		maxBytes = defaultFetch
	}
	return &Reader{log: l, topic: name, n: partition, next: offset, most: maxBytes, pause: longPoll}
}

// Next implements topic.Reader.
func (r *Reader) Next() int64 { return r.next }

// SetNext implements topic.Reader.
func (r *Reader) SetNext(offset int64) { r.next = offset }

// SetPatient is what topic.SetPatient calls.
func (r *Reader) SetPatient(patient bool) {
	r.pause = longPoll
	if patient {
		r.pause = patientPoll
	}
}

// Span implements topic.Reader.
func (r *Reader) Span() topic.Span { return r.span }

// Identity implements topic.Reader.
func (r *Reader) Identity(ctx context.Context) (topic.Identity, error) {
	id, err := r.log.identity(r.topic)
	if err != nil {
		sleep.For(ctx, faultPause)
	}
	return id, err
}

// faultPause is how long a reader waits after a failure.
const faultPause = 100 * time.Millisecond

// Fetch implements topic.Reader.
func (r *Reader) Fetch(ctx context.Context) ([]topic.Record, error) {
	records, err := r.fetch(ctx)
	if err == nil {
		return records, nil
	}

	err = fmt.Errorf("fetching %s/%d: %w", r.topic, r.n, r.log.cause(ctx, err))
	if ctx.Err() == nil && !errors.Is(err, topic.ErrTrimmed) && !errors.Is(err, topic.ErrPastEnd) {
		sleep.For(ctx, faultPause)
	}
	return nil, err
}

func (r *Reader) fetch(ctx context.Context) (records []topic.Record, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if r.log.closed() {
		return nil, errClosed
	}
	if r.of == nil {
		if r.of, err = r.log.partition(r.topic, r.n); err != nil {
			return nil, err
		}
	}

	// The records of the last answer must not keep their bytes alive.
	clear(r.records)
	r.records = r.records[:0]
	found, more, err := r.recent()
	if more == nil {
		if err != nil || found {
			return r.records, err
		}
		return r.old(ctx)
	}

	if !r.wait(ctx, more) {
		return nil, ctx.Err()
	}
	if found, more, err = r.recent(); found || more != nil || err != nil {
		return r.records, err
	}
	return r.old(ctx)
}

// recent takes records from memory. When there is none at all, it returns what to wait for.
func (r *Reader) recent() (found bool, more <-chan struct{}, err error) {
	p := r.of
	p.mu.Lock()
	defer p.mu.Unlock()
	r.span = topic.Span{Start: p.start, End: p.end}
	switch {
	case r.next < p.start:
		return false, nil, topic.Errorf(topic.ErrTrimmed, "the log begins at %d now: %d records from %d on are gone", p.start, p.start-r.next, r.next)
	case r.next > p.end:
		return false, nil, topic.Errorf(topic.ErrPastEnd, "the log ends at %d, before %d", p.end, r.next)
	case r.next == p.end:
		return false, p.waiting(), nil
	}

	if r.records, found = p.recent(r.records, r.next, r.most); found {
		r.next = p.end
		if n := len(r.records); n > 0 && r.records[n-1].Offset < p.tail[len(p.tail)-1].Offset {
			r.next = r.records[n-1].Offset + 1
		}
	}
	return found, nil, nil
}

// wait waits for more; false when the context is done.
func (r *Reader) wait(ctx context.Context, more <-chan struct{}) bool {
	if r.timer == nil {
		r.timer = time.NewTimer(r.pause)
	} else {
		r.timer.Reset(r.pause)
	}
	defer r.timer.Stop()
	select {
	case <-more:
	case <-r.timer.C:
	case <-r.log.ended:
	case <-ctx.Done():
		return false
	}
	return true
}

// A page is records as they are stored, one after another.
type page struct {
	bytes   []byte
	offsets []int64
	ends    []int // of each in bytes
	last    bool  // there are no more
}

// old takes records from the database.
func (r *Reader) old(ctx context.Context) ([]topic.Record, error) {
	p, from, to, most, into := r.of, r.next, r.span.End, r.most, r.page

	// After an error the database may still write into the page.
	r.page = page{}
	got, err := on(ctx, r.log, func(db *pebble.DB) (page, error) { return p.read(db, from, to, most, into) })
	if err != nil {
		return nil, err
	}

	// Records that were deleted meanwhile would look like those of a compacted log.
	if span := p.span(); from < span.Start {
		r.span = span
		return nil, topic.Errorf(topic.ErrTrimmed, "the log begins at %d now: %d records from %d on are gone", span.Start, span.Start-from, from)
	}

	r.page = got
	begins := 0
	for i, offset := range got.offsets {
		record, _, err := readRecord(got.bytes[begins:got.ends[i]:got.ends[i]], offset)
		if err != nil {
			return nil, err
		}
		r.records = append(r.records, record)
		begins = got.ends[i]
	}

	switch n := len(got.offsets); {
	case got.last:
		r.next = to
	case n > 0:
		r.next = got.offsets[n-1] + 1
	}
	return r.records, nil
}

// read reads records of about that many bytes.
func (p *partition) read(db *pebble.DB, from, to int64, most int, into page) (page, error) {
	if cap(into.bytes) > 2*most {
		into.bytes = nil // one long record made it large
	}
	into = page{bytes: into.bytes[:0], offsets: into.offsets[:0], ends: into.ends[:0]}
	iterator, err := db.NewIter(&pebble.IterOptions{LowerBound: p.key(from), UpperBound: p.key(to)})
	if err != nil {
		return into, err
	}

	ok := iterator.First()
	for ; ok; ok = iterator.Next() {
		value, err := iterator.ValueAndErr()
		if err != nil {
			return into, errors.Join(err, iterator.Close())
		}
		if len(into.offsets) > 0 && len(into.bytes)+len(value) > most {
			break
		}

		offset, err := offsetIn(iterator.Key())
		if err != nil {
			return into, errors.Join(err, iterator.Close())
		}
		into.bytes = append(into.bytes, value...)
		into.offsets = append(into.offsets, offset)
		into.ends = append(into.ends, len(into.bytes))
	}

	into.last = !ok
	return into, errors.Join(iterator.Error(), iterator.Close())
}
