package local

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"weir/internal/database"
	"weir/internal/topic"
)

// A writer is the one goroutine of a Log that changes the database.
type writer struct {
	*Log
	calls    []call
	messages []queued
	spare    *write        // of an earlier write, for the next
	waits    time.Duration // after a failure
	reported time.Time
}

const (
	firstPause = 50 * time.Millisecond
	lastPause  = 2 * time.Second
)

func newWriter(l *Log) *writer { return &writer{Log: l} }

// run writes until the Log is closed.
func (w *writer) run() {
	defer w.finish()
	retain := time.NewTicker(w.options.RetainEvery)
	defer retain.Stop()
	for {
		var first <-chan time.Time // to read the topics for the first time
		if w.loaded.Load() == nil {
			first = time.After(firstPause)
		}

		select {
		case <-w.stops.Done():
			return
		case <-first:
			w.reload()
		case <-w.queue.wake:
			w.turn()
		case <-w.queue.abandoned:
			w.answerAbandoned()
			w.turn()
		case <-retain.C:
			if err := w.retain(); err != nil && w.stops.Err() == nil {
				w.logger.Warn("old records could not be deleted", "error", err)
			}
		}
	}
}

// turn writes what waits.
func (w *writer) turn() {
	w.reload()
	var tasks []*task
	w.calls, w.messages, tasks = w.queue.take(w.calls, w.messages)
	for _, t := range tasks {
		w.perform(t)
	}

	for calls, messages := w.calls, w.messages; len(calls) > 0; {
		n, m := first(calls)
		w.settle(calls[:n], messages[:m])
		calls, messages = calls[n:], messages[m:]
	}
	clear(w.calls)
	clear(w.messages)
	w.calls, w.messages = w.calls[:0], w.messages[:0]
}

// perform runs a task until its context is done, or the Log is closed.
func (w *writer) perform(t *task) {
	ctx, cancel := context.WithCancelCause(t.ctx)
	defer cancel(nil)
	defer context.AfterFunc(w.stops, func() { cancel(errLogClosed) })()
	t.done <- t.do(ctx)
}

// first returns how many calls go into one write: as many as fit, at least one; and how many messages these have.
func first(calls []call) (n, messages int) {
	for bytes := 0; n < len(calls) && (n == 0 || bytes+calls[n].bytes <= writeBytes); n++ {
		bytes += calls[n].bytes
		messages += calls[n].messages
	}
	return n, messages
}

// reload reads the topics again after the database was opened again.
func (w *writer) reload() {
	if w.database.Uses(w.loaded.Load()) || w.database.Fault() != nil {
		return // while the disk fails there is nothing to load
	}
	if err := w.load(w.stops); err != nil && w.stops.Err() == nil {
		w.logger.Error("the topics could not be read again", "error", err)
	}
}

// settle writes some calls, again and again until that is done, and answers them.
func (w *writer) settle(calls []call, messages []queued) {
	for w.stops.Err() == nil {
		done, err := w.try(calls, messages)
		if err == nil {
			w.waits = 0
			w.publish(done)
			w.answer(calls, messages, done, nil)
			done.forget()
			w.spare = done
			return
		}

		w.report(err)
		w.waits = min(max(2*w.waits, firstPause), lastPause)
		w.await(time.After(w.waits))
		w.reload()
	}
	w.answer(calls, messages, nil, errLogClosed)
}

var errLogClosed = topic.Errorf(topic.ErrClosed, "the log was closed before this was written")

// try writes some calls once. When it fails, the write may have been done or not.
func (w *writer) try(calls []call, messages []queued) (*write, error) {
	next := w.spare
	w.spare = nil // after an error the database may still use it
	if next == nil {
		next = &write{places: map[*partition]*place{}}
	}
	next.begin(calls, messages, w.options.Now())

	type result struct {
		done *write
		err  error
	}
	results := make(chan result, 1)
	go func() {
		done, err := on(w.stops, w.Log, func(db *pebble.DB) (*write, error) { return next, next.do(db) })
		results <- result{done, err}
	}()

	for {
		select {
		case r := <-results:
			return r.done, r.err
		case <-w.queue.abandoned:
			w.answerAbandoned()
		}
	}
}

// report logs a failure, at most once a minute.
func (w *writer) report(err error) {
	if now := time.Now(); w.stops.Err() == nil && now.Sub(w.reported) >= time.Minute {
		w.reported = now
		w.logger.Warn("records cannot be written; they wait", "error", err)
	}
}

// await waits after a failure.
func (w *writer) await(over <-chan time.Time) {
	for {
		select {
		case <-over:
			return
		case <-w.stops.Done():
			return
		case <-w.queue.abandoned:
			w.answerAbandoned()
		}
	}
}

// answerAbandoned answers the messages whose appenders wait no more. The disk may hang, so their write is not waited
// for: they may be written all the same.
func (w *writer) answerAbandoned() {
	w.abandon(w.messages)
	w.abandon(w.queue.leftOver())
}

func (w *writer) abandon(messages []queued) {
	for i := range messages {
		m := &messages[i]
		if m.answered || m.released || !w.queue.gaveUp(m.by) {
			continue
		}
		m.answered = true
		if m.Done != nil {
			m.Done(-1, m.named(topic.Errorf(topic.ErrClosed, "the appender was closed before this was written")))
		}
		w.queue.release(messages[i : i+1])
	}
}

func (q *queue) gaveUp(a *Appender) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return a.abandoned
}

// publish shows readers what was written.
func (w *writer) publish(done *write) {
	if len(done.order) == 0 {
		return
	}
	kept := keptWrite{bytes: int64(done.size), parts: make([]keptPart, 0, len(done.order))}
	for _, one := range done.order {
		kept.bytes += int64(len(one.records)) * recordBytes
		kept.parts = append(kept.parts, keptPart{one.of, one.extent.end})
		one.of.mu.Lock()
		one.of.extent, one.of.latest = one.extent, one.latest
		one.of.tail = append(one.of.tail, one.records...)
		one.of.replaced(one.replaced)
		one.of.wake()
		one.of.mu.Unlock()
	}
	w.tails.keep(kept)
}

// recordBytes is how much memory a record in a tail takes next to its bytes.
const recordBytes = 96

// answer answers the messages in their order, and each call after its own.
func (w *writer) answer(calls []call, messages []queued, done *write, failed error) {
	at := 0
	for _, c := range calls {
		for range c.messages {
			m := &messages[at]
			offset, err := int64(-1), failed
			if failed == nil {
				offset, err = done.results[at].offset, done.results[at].err
			}
			if m.Done != nil && !m.answered {
				m.Done(offset, m.named(err))
			}
			at++
		}
		if c.extra != nil && c.extra.done != nil {
			c.extra.done(c.extra.result(failed))
		}
	}
	w.queue.release(messages)
}

func (m *queued) named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("writing to %s/%d: %w", m.by.config.Topic, m.Partition, err)
}

func (e *extra) result(failed error) error {
	if failed == nil && e.commit != nil {
		return e.commit.refused
	}
	return failed
}

// finish answers what waits when the Log is closed.
func (w *writer) finish() {
	w.queue.mu.Lock()
	w.queue.ended = true
	w.queue.mu.Unlock()
	var tasks []*task
	w.calls, w.messages, tasks = w.queue.take(w.calls, w.messages)
	for _, t := range tasks {
		t.done <- topic.Errorf(topic.ErrClosed, "the log is closed")
	}
	w.answer(w.calls, w.messages, nil, errLogClosed)
}

// A write is what is written at once. It is used again after it was done.
type write struct {
	calls    []call
	messages []queued
	now      int64
	places   map[*partition]*place
	order    []*place
	spare    []*place
	results  []result
	size     int
	latest   map[string]last // of the keys of this write, in compacted topics; by topic, partition and key
}

// A result is the offset of a message, or why it is refused.
type result struct {
	offset int64
	err    error
}

// A place is where a write goes on in a partition.
type place struct {
	of       *partition
	extent   extent
	latest   int64
	records  []topic.Record
	replaced []int64 // offsets of records that this write deletes
}

// begin prepares a write. Only these copies of the caller's slices are used from now on.
func (w *write) begin(calls []call, messages []queued, now time.Time) {
	w.calls = append(w.calls[:0], calls...)
	w.messages = append(w.messages[:0], messages...)
	w.now = now.UnixMilli()
	w.size = 0
	w.results = w.results[:0]
}

// forget drops the references to what was written.
func (w *write) forget() {
	for _, one := range w.order {
		clear(one.records)
		one.of, one.records, one.replaced = nil, one.records[:0], one.replaced[:0]
		w.spare = append(w.spare, one)
	}
	clear(w.order)
	w.order = w.order[:0]
	clear(w.places)
	clear(w.latest)
	clear(w.calls)
	clear(w.messages)
}

// do writes.
func (w *write) do(db *pebble.DB) error {
	bytes := 64
	for i := range w.messages {
		bytes += 2*(prefixBytes+8+32) + recordSize(&w.messages[i].Message) + len(w.messages[i].Key) // a compacted topic's has its key twice
	}
	for i := range w.calls {
		if e := w.calls[i].extra; e != nil {
			bytes += w.calls[i].bytes + topic.MaxMetadata
		}
	}

	// It is not closed: readers use its bytes.
	batch := db.NewBatchWithSize(bytes)
	if err := w.encode(db, batch); err != nil {
		return err
	}
	w.size = bytes
	if batch.Empty() {
		return nil
	}
	return db.Apply(batch, pebble.Sync)
}

func (w *write) encode(db *pebble.DB, batch *pebble.Batch) error {
	at := 0
	for _, c := range w.calls {
		for range c.messages {
			offset, err := w.add(db, batch, &w.messages[at])
			if err != nil && !errors.Is(err, topic.ErrPermanent) && err != errAnswered {
				return err
			}
			w.results = append(w.results, result{offset, err})
			at++
		}
		if c.extra != nil {
			if err := c.extra.encode(batch); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *extra) encode(batch *pebble.Batch) error {
	if e.commit != nil {
		return e.commit.encode(batch)
	}
	for _, n := range e.notes {
		key := append([]byte{ours, aNote}, n.Key...)
		if n.Value == nil {
			if err := batch.Delete(key, nil); err != nil {
				return err
			}
			continue
		}
		if err := batch.Set(key, n.Value, nil); err != nil {
			return err
		}
	}
	return nil
}

// add adds a message. An error that is permanent or errAnswered is the message's own.
func (w *write) add(db *pebble.DB, batch *pebble.Batch, m *queued) (int64, error) {
	p := m.by.of.partitions[m.Partition]
	switch {
	case m.answered:
		return -1, errAnswered
	case len(m.Key)+len(m.Value) > maxRecord:
		return -1, topic.Errorf(topic.ErrTooLarge, "a record of %d bytes; at most %d are allowed", len(m.Key)+len(m.Value), maxRecord)
	case p.of.compact && m.Key == nil:
		return -1, topic.Errorf(topic.ErrInvalid, "a record without a key, in a topic that keeps the last record of each")
	case p.of.compact && len(m.Key) > maxKey:
		return -1, topic.Errorf(topic.ErrTooLarge, "a key of %d bytes; at most %d are allowed in a compacted topic", len(m.Key), maxKey)
	}

	at := w.place(p)
	offset := at.extent.end
	if p.of.compact {
		if err := w.replace(db, batch, at, m, offset); err != nil {
			return -1, err
		}
	}
	at.put(batch, m, max(w.now, at.latest))
	return offset, nil
}

// errAnswered leaves a message out whose appender waits no more.
var errAnswered = errors.New("it was answered before")

// place returns where a partition goes on.
func (w *write) place(p *partition) *place {
	if at := w.places[p]; at != nil {
		return at
	}

	at := &place{}
	if n := len(w.spare); n > 0 {
		at, w.spare = w.spare[n-1], w.spare[:n-1]
	}
	p.mu.Lock()
	at.of, at.extent, at.latest = p, p.extent, p.latest
	p.mu.Unlock()
	w.places[p] = at
	w.order = append(w.order, at)
	return at
}

// put encodes a record at the end of the partition.
func (at *place) put(batch *pebble.Batch, m *queued, now int64) {
	p := at.of
	h := head{at: now, total: at.extent.total + int64(len(m.Key)+len(m.Value))}
	var begin [1 + 3*10]byte
	first := appendHead(begin[:0], &m.Message, h)

	op := batch.SetDeferred(prefixBytes+8, len(first)+len(m.Key)+len(m.Value))
	appendOffset(appendPrefix(op.Key[:0], aRecord, p.of.Number, p.number), at.extent.end)
	value := append(append(append(op.Value[:0], first...), m.Key...), m.Value...)
	_ = op.Finish() // an error only of batches with an index

	r := topic.Record{Offset: at.extent.end, Time: time.UnixMilli(now)}
	if m.Key != nil {
		r.Key = value[len(first) : len(first)+len(m.Key) : len(first)+len(m.Key)]
	}
	if m.Value != nil {
		r.Value = value[len(first)+len(m.Key) : len(value) : len(value)]
	}
	at.records = append(at.records, r)
	at.extent.end++
	at.extent.total, at.latest = h.total, now
}

// replace deletes the record that a key had until now, and notes the new one.
func (w *write) replace(db *pebble.DB, batch *pebble.Batch, at *place, m *queued, offset int64) error {
	p := at.of
	key := append(appendPrefix(make([]byte, 0, prefixBytes+len(m.Key)), aLast, p.of.Number, p.number), m.Key...)
	before, found := w.latest[string(key)]
	if !found {
		stored, err := database.Get(db, key)
		if err != nil {
			return err
		}
		if found = stored != nil; found {
			if before, err = readLast(stored); err != nil {
				return err
			}
		}
	}

	if found {
		if err := before.delete(batch, p); err != nil {
			return err
		}
		at.replaced = append(at.replaced, before.offset)
	}

	next := last{offset: offset, ends: m.Value == nil}
	if next.ends {
		if err := batch.Set(appendOffset(appendPrefix(nil, anEnd, p.of.Number, p.number), offset), m.Key, nil); err != nil {
			return err
		}
	}
	if w.latest == nil {
		w.latest = map[string]last{}
	}
	w.latest[string(key)] = next
	return batch.Set(key, next.bytes(), nil)
}

// delete deletes a record of a compacted topic.
func (l last) delete(batch *pebble.Batch, p *partition) error {
	if l.ends {
		if err := batch.Delete(appendOffset(appendPrefix(nil, anEnd, p.of.Number, p.number), l.offset), nil); err != nil {
			return err
		}
	}
	return batch.Delete(p.key(l.offset), nil)
}
