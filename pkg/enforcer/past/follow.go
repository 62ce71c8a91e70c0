package past

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"weir/internal/database"
	"weir/internal/sleep"
	"weir/internal/topic"
)

// A follower reads the topic into the database. It is used by one goroutine.
type follower struct {
	*Index
	in       *opened
	from     *pebble.DB // the opening that progress and kinds are of
	progress progress
	kinds    *kinds
	parts    []topic.Reader
	ends     []int64 // of the partitions, when they were last known
	complete []int64 // when the index had all of the partitions, in Unix milliseconds
	idle     int     // the partition that was last waited for

	identified, tidied time.Time
}

const (
	// identifyEvery is how often the topic is asked which one it is.
	identifyEvery = 10 * time.Second
	// tidyEvery is how often old events are looked for.
	tidyEvery = 30 * time.Second
	// tidyEvents is how many events are deleted in one batch.
	tidyEvents = 5000
)

// run reads until the context is done, or the database is damaged.
func (f *follower) run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := f.once(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // this is the usual end
		case errors.Is(err, errDamaged), errors.Is(f.in.db.Fault(), database.ErrDamaged):
			return errors.Join(err, f.in.db.Fault())
		case errors.Is(err, topic.ErrNoTopic): // the enforcer makes its topics, or reports why not
			sleep.For(ctx, time.Second)
		case err != nil:
			f.from = nil // what the database has may be older than what was written last
			f.faults.Note("index", fmt.Errorf("indexing events: %w", err))
			sleep.For(ctx, time.Second)
		default:
			f.faults.Over("index")
		}
	}
	return nil
}

// once does one step: it loads the state, asks for the topic's identity, reads some records, or deletes old events.
func (f *follower) once(ctx context.Context) error {
	if f.from == nil || !f.in.db.Uses(f.from) {
		if err := f.load(ctx); err != nil {
			return err
		}
	}
	if now := f.config.Now(); f.identified.IsZero() || now.Sub(f.identified) >= identifyEvery || now.Before(f.identified) {
		if err := f.identify(ctx); err != nil {
			return err
		}
		f.identified = now
	}
	if now := f.config.Now(); f.tidied.IsZero() || now.Sub(f.tidied) >= tidyEvery || now.Before(f.tidied) {
		more, err := f.tidy(ctx)
		if err != nil {
			return err
		}
		if !more {
			f.tidied = now
		}
	}
	return f.read(ctx)
}

// load reads from the database how far it is.
func (f *follower) load(ctx context.Context) error {
	type loaded struct {
		db *pebble.DB
		progress
		kinds *kinds
	}
	got, err := database.Do(ctx, f.in.db, func(db *pebble.DB) (loaded, error) {
		p, k, err := load(db)
		return loaded{db, p, k}, err
	})
	if err != nil {
		return err
	}
	f.from, f.progress, f.kinds = got.db, got.progress, got.kinds
	f.parts, f.identified = nil, time.Time{}
	f.in.kinds.Store(f.kinds)
	f.count.Store(f.progress.Count)
	f.current.Store(f.in)
	return f.look(ctx)
}

// identify begins again when the topic is another one, or has partitions that the index does not know.
func (f *follower) identify(ctx context.Context) error {
	partitions, err := f.config.Log.Partitions(ctx, f.config.Topic)
	if err != nil {
		return err
	}
	id, err := f.config.Log.Reader(f.config.Topic, 0, 0, 0).Identity(ctx)
	if err != nil {
		return err
	}
	had := topic.Identity(f.progress.Topic)
	if had != "" && id != "" && !had.Is(id) {
		return f.again(ctx, fmt.Errorf("the topic is %s, and was %s", id, had))
	}
	if len(id) > len(had) { // an id without the topic's own is worth less than one with it
		f.progress.Topic = string(id)
	}

	for len(f.progress.Parts) < partitions {
		f.progress.Parts = append(f.progress.Parts, partProgress{})
	}
	for p := len(f.parts); p < len(f.progress.Parts); p++ {
		f.parts = append(f.parts, f.config.Log.Reader(f.config.Topic, p, f.progress.Parts[p].Next, 0))
	}
	return f.spans(ctx)
}

// spans finds out how much there is to read.
func (f *follower) spans(ctx context.Context) error {
	spans, err := f.config.Log.Offsets(ctx, f.config.Topic)
	if err != nil {
		return err
	}
	f.ends, f.complete = make([]int64, len(f.parts)), make([]int64, len(f.parts))
	for p, part := range f.progress.Parts {
		if p >= len(spans) || spans[p].End < part.Next {
			return f.again(ctx, fmt.Errorf("%s/%d is shorter than before", f.config.Topic, p))
		}
		f.ends[p] = spans[p].End
		if f.parts[p].Next() < spans[p].Start {
			f.parts[p].SetNext(spans[p].Start)
		}
	}
	f.reckon(every(len(f.parts))...)
	return nil
}

func every(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// again empties the index.
func (f *follower) again(ctx context.Context, why error) error {
	f.config.Logger.Warn("the index of events is made again from the topic", "why", why.Error())
	_, err := database.Do(ctx, f.in.db, func(db *pebble.DB) (bool, error) { return true, clearAll(db) })
	f.from = nil
	f.asOf.Store(0)
	return err
}

// next returns the partition to read from: of those with a backlog the one whose last event is the oldest, so that events
// are written by and large in their order; else the next one in turn.
func (f *follower) next() (partition int, backlog bool) {
	best := -1
	for p, end := range f.ends {
		if end > f.parts[p].Next() && (best < 0 || f.progress.Parts[p].At < f.progress.Parts[best].At) {
			best = p
		}
	}
	if best >= 0 {
		return best, true
	}
	f.idle = (f.idle + 1) % len(f.parts)
	return f.idle, false
}

// read reads records of one partition.
func (f *follower) read(ctx context.Context) error {
	p, backlog := f.next()
	reader := f.parts[p]
	records, err := reader.Fetch(ctx)
	switch {
	case errors.Is(err, topic.ErrTrimmed):
		reader.SetNext(reader.Span().Start)
		return nil
	case errors.Is(err, topic.ErrPastEnd):
		return f.again(ctx, err)
	case err != nil:
		return err
	}

	began := time.Now()
	f.ends[p] = reader.Span().End
	if err := f.write(ctx, p, records); err != nil {
		return err
	}
	f.reckon(p)
	if backlog && f.ends[p] > reader.Next() {
		sleep.For(ctx, time.Since(began)) // checks come first
	}
	return nil
}

// reckon notes how far behind the index is, and of what time. Records that came after a partition was asked are not known.
func (f *follower) reckon(asked ...int) {
	behind, now := int64(0), f.config.Now().UnixMilli()
	for p, end := range f.ends {
		behind += max(0, end-f.parts[p].Next())
	}
	for _, p := range asked {
		if f.ends[p] <= f.parts[p].Next() {
			f.complete[p] = now
		}
	}
	f.behind.Store(behind)
	f.asOf.Store(slices.Min(f.complete))
}

// batchEvents is how many events are written together.
const batchEvents = 2000

// write adds the records of a partition.
func (f *follower) write(ctx context.Context, partition int, records []topic.Record) error {
	oldest := f.config.Now().Add(-f.config.Retention).UnixMilli()
	next := f.parts[partition].Next()
	for len(records) > 0 || f.progress.Parts[partition].Next != next {
		some := records[:min(len(records), batchEvents)]
		records = records[len(some):]
		reached := next
		if len(records) > 0 {
			reached = records[0].Offset
		}

		events := make([]*Event, 0, len(some))
		at := f.progress.Parts[partition].At
		for _, r := range some {
			e, err := ReadEvent(r.Value)
			if err != nil {
				f.faults.Note("record", fmt.Errorf("%s/%d, offset %d: %w", f.config.Topic, partition, r.Offset, err))
				continue
			}
			if at = e.At; at >= oldest {
				// The batch may still be written when this call has given up, and the records are valid until the next Fetch.
				e.Line = append([]byte{}, e.Line...)
				events = append(events, e)
			}
		}
		if err := f.change(ctx, func(w *writer) error {
			for _, e := range events {
				if err := w.add(e); err != nil {
					return err
				}
			}
			w.Parts[partition] = partProgress{reached, at}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// change writes a batch.
func (f *follower) change(ctx context.Context, do func(*writer) error) error {
	progress, kinds, from := f.progress, f.kinds, f.from
	w, err := database.Do(ctx, f.in.db, func(db *pebble.DB) (*writer, error) {
		if db != from {
			return nil, errReopened
		}
		w := newWriter(db, progress, kinds)
		if err := do(w); err != nil {
			return nil, errors.Join(err, w.batch.Close())
		}
		return w, w.commit()
	})
	if err != nil {
		return err
	}
	f.in.db.Written()
	f.progress, f.kinds = w.progress, w.kinds
	f.in.kinds.Store(w.kinds)
	f.count.Store(w.Count)
	return nil
}

var errReopened = errors.New("the folder was opened again")

// tidy deletes events that are older than the topic keeps them, and the oldest while there are too many. It returns
// whether there may be more to delete.
func (f *follower) tidy(ctx context.Context) (more bool, err error) {
	before, most := f.config.Now().Add(-f.config.Retention).UnixMilli(), tidyEvents
	if over := f.progress.Count - f.config.MaxEvents; over > 0 {
		before, most = maxAt, int(min(over, tidyEvents))
	}
	deleted, err := f.delete(ctx, before, most)
	if err != nil || deleted == most {
		return true, err
	}
	return false, f.look(ctx)
}

func (f *follower) delete(ctx context.Context, before int64, most int) (deleted int, err error) {
	err = f.change(ctx, func(w *writer) (err error) {
		deleted, err = w.trim(ctx, before, most)
		return err
	})
	return deleted, err
}

// look measures the folder, and finds the oldest event.
func (f *follower) look(ctx context.Context) error {
	type measured struct{ bytes, oldest int64 }
	is, err := database.Do(ctx, f.in.db, func(db *pebble.DB) (is measured, err error) {
		is.bytes = int64(db.Metrics().DiskSpaceUsage())
		it, err := db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: []byte{spaceEvent}, UpperBound: []byte{spaceEvent + 1}})
		if err != nil {
			return is, err
		}
		if it.First() {
			p, _ := placeOf(it.Key())
			is.oldest = p.at
		}
		return is, errors.Join(it.Error(), it.Close())
	})
	if err != nil {
		return err
	}
	f.bytes.Store(is.bytes)
	f.oldest.Store(is.oldest)
	return nil
}
