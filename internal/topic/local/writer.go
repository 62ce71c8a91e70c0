package local

import (
	"context"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

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

// run writes until the Log is closed: until the context is done.
func (w *writer) run(closing context.Context) {
	defer w.finish()
	retain := time.NewTicker(w.options.RetainEvery)
	defer retain.Stop()
	for {
		var first <-chan time.Time // to read the topics for the first time
		if w.loaded.Load() == nil {
			first = time.After(firstPause)
		}

		select {
		case <-closing.Done():
			return
		case <-first:
			w.reload(closing)
		case <-w.queue.wake:
			w.turn(closing)
		case <-w.queue.abandoned:
			w.answerAbandoned()
			w.turn(closing)
		case <-retain.C:
			if err := w.retain(closing); err != nil && closing.Err() == nil {
				w.logger.Warn("old records could not be deleted", "error", err)
			}
		}
	}
}

// turn writes what waits.
func (w *writer) turn(closing context.Context) {
	w.reload(closing)
	var tasks []*task
	w.calls, w.messages, tasks = w.queue.take(w.calls, w.messages)
	for _, t := range tasks {
		t.done <- t.do(closing)
	}

	for calls, messages := w.calls, w.messages; len(calls) > 0; {
		n, m := first(calls)
		w.settle(closing, calls[:n], messages[:m])
		calls, messages = calls[n:], messages[m:]
	}
	clear(w.calls)
	clear(w.messages)
	w.calls, w.messages = w.calls[:0], w.messages[:0]
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
func (w *writer) reload(closing context.Context) {
	if w.database.Uses(w.loaded.Load()) || w.database.Fault() != nil {
		return // while the disk fails there is nothing to load
	}
	if err := w.load(closing); err != nil && closing.Err() == nil {
		w.logger.Error("the topics could not be read again", "error", err)
	}
}

// settle writes some calls, again and again until that is done, and answers them.
func (w *writer) settle(closing context.Context, calls []call, messages []queued) {
	for closing.Err() == nil {
		done, err := w.try(closing, calls, messages)
		if err == nil {
			w.waits = 0
			w.keepUnsynced(done)
			w.publish(done)
			w.answer(calls, messages, done, nil)
			done.forget()
			w.spare = done
			return
		}

		w.report(closing, err)
		w.waits = min(max(2*w.waits, firstPause), lastPause)
		w.await(closing, time.After(w.waits))
		w.reload(closing)
	}
	w.answer(calls, messages, nil, errUnwritten)
}

var errUnwritten = topic.Errorf(topic.ErrClosed, "the log was closed before this was written")

// try writes some calls once. When it fails, the write may have been done or not.
func (w *writer) try(closing context.Context, calls []call, messages []queued) (*write, error) {
	next := w.spare
	w.spare = nil // after an error the database may still use it
	if next == nil {
		next = &write{places: map[*partition]*place{}}
	}
	w.number++
	next.begin(calls, messages, w.options.Now(), w.unsyncedBytes >= mostUnsynced, w.number)

	type result struct {
		done *write
		err  error
	}
	results := make(chan result, 1)
	go func() {
		done, err := on(closing, w.Log, func(db *pebble.DB) (*write, error) { return next, next.do(db) })
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

// keepUnsynced keeps what was written until it is synced: if the disk fails before, it is written again.
func (w *writer) keepUnsynced(done *write) {
	switch {
	case done.synced:
		w.forgetUnsynced()
	case done.stored != nil:
		w.mu.Lock()
		w.unsynced = append(w.unsynced, unsyncedWrite{done.number, done.stored})
		w.mu.Unlock()
		w.unsyncedBytes += len(done.stored)
	}
}

func (l *Log) forgetUnsynced() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.unsynced)
	l.unsynced, l.unsyncedBytes = l.unsynced[:0], 0
}

// report logs a failure, at most once a minute.
func (w *writer) report(closing context.Context, err error) {
	if now := time.Now(); closing.Err() == nil && now.Sub(w.reported) >= time.Minute {
		w.reported = now
		w.logger.Warn("records cannot be written; they wait", "error", err)
	}
}

// await waits after a failure.
func (w *writer) await(closing context.Context, over <-chan time.Time) {
	for {
		select {
		case <-over:
			return
		case <-closing.Done():
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
		t.done <- errClosed
	}
	w.answer(w.calls, w.messages, nil, errUnwritten)
}
