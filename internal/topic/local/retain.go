package local

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"weir/internal/topic"
)

// mostEnds bounds how many records without a value one check deletes.
const mostEnds = 10_000

// retain deletes old records. It runs in the writer's goroutine.
func (l *Log) retain(closing context.Context) error {
	var faults []error
	for _, t := range l.allTopics() {
		for _, p := range t.partitions {
			if closing.Err() == nil {
				faults = append(faults, l.retainPartition(closing, t, p))
			}
		}
	}
	return errors.Join(faults...)
}

func (l *Log) retainPartition(closing context.Context, t *storedTopic, p *partition) error {
	l.mu.Lock()
	d := t.description
	l.mu.Unlock()
	now, span := l.options.Now().UnixMilli(), p.span()
	if span.Start == span.End {
		return nil
	}

	if t.compact {
		stay, ok := d.limit("delete.retention.ms")
		if !ok {
			stay = defaultEndsStay.Milliseconds()
		}
		_, err := on(closing, l, func(db *pebble.DB) (struct{}, error) { return struct{}{}, p.dropEnds(db, now-stay) })
		return err
	}

	start, err := on(closing, l, func(db *pebble.DB) (int64, error) { return p.startAfter(db, &d, span, now) })
	if err != nil || start <= span.Start {
		return err
	}

	// First for readers, then on the disk: a reader that finds nothing must see why.
	p.trim(start)
	_, err = on(closing, l, func(db *pebble.DB) (struct{}, error) { return struct{}{}, p.deleteBefore(db, start) })
	return err
}

// startAfter returns where a partition has to begin by the settings of its topic.
func (p *partition) startAfter(db *pebble.DB, d *description, span topic.Span, now int64) (start int64, err error) {
	start = span.Start
	if ms, ok := d.limit("retention.ms"); ok {
		if start, err = p.search(db, span, func(h head) bool { return h.at >= now-ms }); err != nil {
			return 0, err
		}
	}

	bytes, ok := d.limit("retention.bytes")
	if !ok {
		return start, nil
	}
	p.mu.Lock()
	total := p.total
	p.mu.Unlock()
	// The total of a record counts the record itself: the bytes from it on are those behind the one before.
	kept, err := p.search(db, span, func(h head) bool { return total-h.total < bytes })
	return max(start, kept), err
}

// deleteBefore deletes records. A loss of power may bring them back, until the next check.
func (p *partition) deleteBefore(db *pebble.DB, start int64) error {
	batch := db.NewBatch()
	defer batch.Close()
	if err := batch.DeleteRange(p.key(0), p.key(start), nil); err != nil {
		return err
	}
	return p.commitWithExtent(batch)
}

// commitWithExtent commits a batch that deletes records, with the partition's span.
func (p *partition) commitWithExtent(batch *pebble.Batch) error {
	p.mu.Lock()
	e := p.extent
	p.mu.Unlock()
	if err := batch.Set(appendPrefix(nil, aSpan, p.of.Number, p.number), e.bytes(), nil); err != nil {
		return err
	}
	return batch.Commit(pebble.NoSync)
}

// dropEnds deletes the records without a value of a compacted topic that came before a time.
func (p *partition) dropEnds(db *pebble.DB, before int64) error {
	iterator, err := db.NewIter(&pebble.IterOptions{LowerBound: appendPrefix(nil, anEnd, p.of.Number, p.number), UpperBound: appendPrefix(nil, anEnd, p.of.Number, p.number+1)})
	if err != nil {
		return err
	}

	batch := db.NewBatch()
	defer batch.Close()
	n := 0
	for more := iterator.First(); more && err == nil && n < mostEnds; n++ {
		if more, err = p.dropEnd(db, batch, iterator, before); more {
			more = iterator.Next()
		}
	}

	err = errors.Join(err, iterator.Error(), iterator.Close())
	if err != nil || batch.Empty() {
		return err
	}

	// The last record of the partition may be among them: its end has to stay.
	return p.commitWithExtent(batch)
}

// dropEnd deletes one record without a value; false when it has to stay, and all behind it.
func (p *partition) dropEnd(db *pebble.DB, batch *pebble.Batch, iterator *pebble.Iterator, before int64) (bool, error) {
	offset, err := offsetIn(iterator.Key())
	if err != nil {
		return false, err
	}
	value, closer, err := db.Get(p.key(offset))
	if err != nil {
		return false, err
	}
	_, h, err := readRecord(value, offset)
	if err = errors.Join(err, closer.Close()); err != nil || h.at >= before {
		return false, err
	}
	if err := batch.Delete(append(appendPrefix(nil, aLast, p.of.Number, p.number), iterator.Value()...), nil); err != nil {
		return false, err
	}
	return true, last{offset: offset, ends: true}.delete(batch, p)
}
