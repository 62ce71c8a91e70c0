package publishing

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"weir/internal/topic"
	"weir/pkg/aggregator/windows"
	"weir/pkg/blocklist"
)

const (
	mostFound    = 256 // late records that wait for the partition's goroutine to take them
	findPatience = time.Second

	lookBackMost     = 10_000 // records; of a longer list all is published again
	lookBackExtra    = 1000   // what had been seen by the last checkpoint may not have been healed by then
	lookBackPatience = 5 * time.Second
)

// A lateRecord of the list may differ from the last one that its key's owner published.
type lateRecord struct {
	name  string
	entry *blocklist.Entry // nil for a record without a value: it must not hide an entry that is live
}

// Late are records of the list that came late. All but add belongs to the partition's goroutine.
type late struct {
	found   chan lateRecord
	missed  atomic.Bool  // there was no room in found: a walk is due
	waiting []lateRecord // not healed yet
}

// add has a record that came late be published over. It waits a second for the partition's goroutine. When that waits
// for longer, the entry is published again with the next walk.
func (l *late) add(ctx context.Context, one lateRecord) {
	select {
	case l.found <- one:
	case <-ctx.Done():
	case <-time.After(findPatience):
		l.missed.Store(true)
	}
}

// take takes the records that were found. Each waits until it is healed.
func (l *late) take() {
	for {
		select {
		case one := <-l.found:
			l.waiting = append(l.waiting, one)
		default:
			return
		}
	}
}

// lookBack reads the records that came between the last owner's checkpoint, when the list had come to an offset, and the
// takeover. The list was not watched for this partition meanwhile, and an owner that was stopped may have sent its last
// records then.
func (l *late) lookBack(ctx context.Context, list *List, partition int, listed int64, took takeover) {
	l.waiting = nil
	from, end := max(0, listed-lookBackExtra), took.since
	if took.list == "" || end-from > lookBackMost {
		l.missed.Store(true)
		return
	}

	ctx, cancel := context.WithTimeout(ctx, lookBackPatience)
	defer cancel()
	last := map[string]lateRecord{}
	err := list.read(ctx, from, end, func(r *topic.Record) {
		record, err := blocklist.DecodeRecord(r.Key, r.Value)
		if number, ok := list.partitionOf(r.Key); err == nil && ok && number == partition {
			name := string(r.Key)
			last[name] = lateRecord{name, record.Entry}
		}
	})
	if err != nil {
		l.missed.Store(true)
	}

	l.waiting = slices.Collect(maps.Values(last))
}

// heal publishes again what records of others, which came late, stand in front of. A compacted log keeps only the last.
func (l *late) heal(ctx context.Context, find *finder, post *post) error {
	for l.take(); len(l.waiting) > 0; l.take() {
		some := l.waiting[:min(walkPairs, len(l.waiting))]
		found := make([]*windows.Window, len(some))
		for i, one := range some {
			found[i] = find.window(one.name)
		}

		if err := find.set.Load(ctx); err != nil {
			return err
		}
		now := post.list.config.Now().UnixMilli()
		for i, one := range some {
			if !overwritten(found[i], one.entry, now) {
				continue
			}
			if err := post.publish(ctx, published(found[i], "")); err != nil {
				return err
			}
		}

		l.waiting = l.waiting[len(some):]
	}

	find.set.Settle()
	return nil
}

// overwritten reports whether a record of the list that came after that of a window's verdict is an older one. Of records that
// the same batch of hits led to, the newest is the one that says what the verdict says: an owner that was stopped for
// long may have counted only a part of that batch.
func overwritten(w *windows.Window, e *blocklist.Entry, now int64) bool {
	if w == nil || w.Verdict == nil || !w.Verdict.Listed {
		return false
	}
	v := w.Verdict
	if e == nil {
		return v.Live(now)
	}
	if v.Until <= now && e.Until <= now {
		return false
	}
	if order := cmp.Or(cmp.Compare(v.Generation, e.Generation), cmp.Compare(v.Offset, e.Offset)); order != 0 {
		return order > 0
	}

	mine := entryOf(w.Rule, w.Key(), v)
	return mine.ID != e.ID || mine.From != e.From || mine.Until != e.Until || mine.Ended != e.Ended || mine.Limit != e.Limit ||
		mine.Count != e.Count || mine.Guarded != e.Guarded || mine.ByShare != e.ByShare
}
