package local

import (
	"cmp"
	"context"
	"sync"

	"weir/internal/sleep"
	"weir/internal/topic"
)

// An Appender accepts messages for one topic.
type Appender struct {
	log    *Log
	config topic.AppenderConfig

	// Under the queue's lock:
	of        *storedTopic // nil until the topic was found
	held      int64        // bytes of messages that wait or are being written
	count     int          // of these messages
	room      chan struct{}
	empty     chan struct{} // closed when count is 0 after Close
	closed    bool
	abandoned bool // Close has stopped waiting
}

var _ topic.Appender = (*Appender)(nil)

// Appender implements topic.Log.
func (l *Log) Appender(config topic.AppenderConfig) topic.Appender { return l.NewAppender(config) }

// NewAppender is Appender, for Together.
func (l *Log) NewAppender(config topic.AppenderConfig) *Appender {
	config.QueueBytes = cmp.Or(config.QueueBytes, defaultQueue)
	return &Appender{log: l, config: config, room: make(chan struct{}), empty: make(chan struct{})}
}

// Send implements topic.Appender. A topic that does not exist is waited for, as room is.
func (a *Appender) Send(ctx context.Context, messages ...topic.Message) error {
	for {
		room, err := a.log.queue.add(a, messages)
		if room == nil {
			return err
		}
		if err := waitFor(ctx, room); err != nil {
			return err
		}
	}
}

// TrySend implements topic.Appender.
func (a *Appender) TrySend(messages ...topic.Message) error {
	room, err := a.log.queue.add(a, messages)
	if room != nil {
		return topic.Errorf(topic.ErrFull, "the queue for %s is full: %d bytes wait for the disk", a.config.Topic, a.Held())
	}
	return err
}

// Held implements topic.Appender.
func (a *Appender) Held() int64 {
	a.log.queue.mu.Lock()
	defer a.log.queue.mu.Unlock()
	return a.held
}

// Close implements topic.Appender.
func (a *Appender) Close(ctx context.Context) error {
	q := &a.log.queue
	q.mu.Lock()
	if !a.closed {
		a.closed = true
		close(a.room) // wakes the callers that wait for room; there will be none
		a.settled()
	}
	q.mu.Unlock()

	select {
	case <-a.empty:
		return nil
	case <-ctx.Done():
	}

	// The writer answers what is left, and what it is writing now.
	q.mu.Lock()
	count := a.count
	a.abandoned = true
	q.mu.Unlock()
	select {
	case <-a.empty:
	case q.abandoned <- struct{}{}:
		<-a.empty
	}
	if count > 0 {
		return topic.Errorf(topic.ErrClosed, "%d messages for %s were not written", count, a.config.Topic)
	}
	return nil
}

// settled reports to Close that nothing is left. The queue must be locked.
func (a *Appender) settled() {
	if a.closed && a.count == 0 {
		close(a.empty)
	}
}

// check returns why the messages cannot be accepted. The queue must be locked.
func (a *Appender) check(messages []topic.Message) error {
	if a.closed {
		return topic.Errorf(topic.ErrClosed, "the appender for %s is closed", a.config.Topic)
	}
	for i := range messages {
		if n := messages[i].Partition; n < 0 || n >= a.config.Partitions {
			return topic.Errorf(topic.ErrPartitions, "%s has no partition %d: it has %d", a.config.Topic, n, a.config.Partitions)
		}
	}
	return nil
}

// lacks returns what to wait for: the topic, or room. The queue must be locked.
func (a *Appender) lacks() (<-chan struct{}, error) {
	if a.of == nil {
		found, made, err := a.log.find(a.config.Topic)
		switch {
		case err != nil:
			return made, nil //nolint:nilerr // it is waited for
		case len(found.partitions) != a.config.Partitions:
			return nil, topic.Errorf(topic.ErrPartitions, "%s has %d partitions and not %d", a.config.Topic, len(found.partitions), a.config.Partitions)
		}
		a.of = found
	}
	if a.full() {
		return a.room, nil
	}
	return nil, nil
}

// full reports that there is no room. The queue must be locked.
func (a *Appender) full() bool { return a.held >= a.config.QueueBytes }

func waitFor(ctx context.Context, room <-chan struct{}) error {
	select {
	case <-room:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A Part is messages for one topic.
type Part struct {
	Appender *Appender
	Messages []topic.Message
}

// Together accepts messages for several topics, and notes, as one write: after a crash all of it is there, or nothing.
// done is called once, after that of every message, as Message.Done is; it may be nil. A message that is refused
// permanently is left out. While the queue of one of the topics is full Together waits, and when the context ends first,
// it accepts nothing. Notes must not be changed until done.
func (l *Log) Together(ctx context.Context, parts []Part, notes []topic.Note, done func(error)) error {
	return l.together(ctx, parts, &extra{notes: notes, done: done})
}

// TogetherUnsynced is Together for a caller that can make its messages again: readers see them, and done is called,
// before they are synced. A kill or a loss of power may then lose the last calls, each completely, with their notes. All
// that was written before a synced write is on the disk with it; Sync does the same.
func (l *Log) TogetherUnsynced(ctx context.Context, parts []Part, notes []topic.Note, done func(error)) error {
	return l.together(ctx, parts, &extra{notes: notes, done: done, unsynced: true})
}

func (l *Log) together(ctx context.Context, parts []Part, e *extra) error {
	for i := range e.notes {
		if n := &e.notes[i]; len(n.Key) == 0 || len(n.Key) > maxKey || len(n.Value) > maxNote {
			return topic.Errorf(topic.ErrTooLarge, "a note of %d bytes with a key of %d bytes; at most %d and 1 to %d are allowed", len(n.Value), len(n.Key), maxNote, maxKey)
		}
	}
	for {
		room, err := l.queue.addTogether(parts, e)
		if room == nil {
			return err
		}
		if err := waitFor(ctx, room); err != nil {
			return err
		}
	}
}

// A queue is what waits to be written. A call is what was accepted together.
type queue struct {
	wake      chan struct{} // holds one
	abandoned chan struct{} // an appender waits no more

	mu       sync.Mutex
	calls    []call
	messages []queued
	tasks    []*task
	ended    bool // the writer has
}

// A queued message belongs to an appender.
type queued struct {
	topic.Message
	by       *Appender
	answered bool // already, for the appender waits no more
	released bool // its room was given back
}

// A call is the next messages of the queue, and what is written with them.
type call struct {
	messages int
	bytes    int
	extra    *extra // nil for messages alone
}

// An extra is what is written next to messages: notes, or a commit.
type extra struct {
	notes    []topic.Note
	commit   *pendingCommit
	done     func(error)
	unsynced bool // the call need not be synced
}

// A task runs in the writer's goroutine.
type task struct {
	do   func(closing context.Context) error
	done chan error
}

// add queues messages, or returns the channel to wait for when there is no room.
func (q *queue) add(a *Appender, messages []topic.Message) (<-chan struct{}, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := a.check(messages); err != nil || len(messages) == 0 {
		return nil, err
	}
	if q.ended {
		return nil, errClosed
	}
	if room, err := a.lacks(); room != nil || err != nil {
		return room, err
	}
	q.calls = append(q.calls, call{messages: len(messages), bytes: q.push(a, messages)})
	sleep.Wake(q.wake)
	return nil, nil
}

func (q *queue) addTogether(parts []Part, e *extra) (<-chan struct{}, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return nil, errClosed
	}

	// Checked before the first is queued: they are accepted together or not at all.
	for _, part := range parts {
		if err := part.Appender.check(part.Messages); err != nil {
			return nil, err
		}
		if room, err := part.Appender.lacks(); room != nil || err != nil {
			return room, err
		}
	}

	c := call{extra: e}
	for _, part := range parts {
		c.messages += len(part.Messages)
		c.bytes += q.push(part.Appender, part.Messages)
	}
	for i := range e.notes {
		c.bytes += len(e.notes[i].Key) + len(e.notes[i].Value)
	}
	q.calls = append(q.calls, c)
	sleep.Wake(q.wake)
	return nil, nil
}

// push queues messages. The queue must be locked.
func (q *queue) push(a *Appender, messages []topic.Message) (bytes int) {
	for i := range messages {
		q.messages = append(q.messages, queued{Message: messages[i], by: a})
		bytes += messages[i].Size()
	}
	a.held += int64(bytes)
	a.count += len(messages)
	return bytes
}

// take swaps what waits for empty slices.
func (q *queue) take(calls []call, messages []queued) ([]call, []queued, []*task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	tasks := q.tasks
	q.tasks = nil
	q.calls, calls = calls[:0], q.calls
	q.messages, messages = messages[:0], q.messages
	return calls, messages, tasks
}

// leftOver returns the messages that wait and whose appenders wait no more. They stay in the queue, as answered ones.
func (q *queue) leftOver() (left []queued) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.messages {
		if m := &q.messages[i]; m.by.abandoned && !m.answered {
			left = append(left, *m)
			m.answered, m.released = true, true
		}
	}
	return left
}

// release gives the room of answered messages back.
func (q *queue) release(messages []queued) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range messages {
		a := messages[i].by
		if messages[i].released {
			continue
		}
		messages[i].released = true
		wasFull := a.full()
		a.held -= int64(messages[i].Size())
		a.count--
		if wasFull && !a.full() && !a.closed {
			close(a.room)
			a.room = make(chan struct{})
		}
		a.settled()
	}
}

// task runs something in the writer's goroutine, until its context is done or the Log is closed.
func (q *queue) task(ctx context.Context, do func(context.Context) error) error {
	t := &task{done: make(chan error, 1), do: func(closing context.Context) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(closing, func() { cancel(errUnwritten) })()
		return do(ctx)
	}}
	q.mu.Lock()
	if q.ended {
		q.mu.Unlock()
		return errClosed
	}
	q.tasks = append(q.tasks, t)
	q.mu.Unlock()
	sleep.Wake(q.wake)

	select {
	case err := <-t.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
