package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"weir/cmd/internal/config"
	"weir/cmd/internal/daemon"
	"weir/internal/database"
	"weir/internal/sleep"
	"weir/internal/topic"
	"weir/internal/topic/local"
)

// A visit reads the topics of a process that does not run. Only one process at a time can have their folder, so it is
// opened for the calls, and closed while the command waits for something else, such as a pager or new records: a process
// that starts then would wait for the command. When a process has the topics, it is asked.
type visit struct {
	settings *config.Config
	logger   *slog.Logger

	mu     sync.Mutex
	opened *daemon.Local // nil while the folder is closed
	idle   *time.Timer   // closes it
}

var _ topic.Log = (*visit)(nil)

// idleAfter is how long the folder stays open without a call.
const idleAfter = 100 * time.Millisecond

// with calls do with the topics.
func (v *visit) with(ctx context.Context, do func(log topic.Log) error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.opened == nil {
		socket := v.settings.TopicsSocket()
		if daemon.Listens(socket) {
			return asked(socket, do)
		}
		opened, err := daemon.OpenLocal(ctx, v.settings, v.logger)
		switch {
		case errors.Is(err, database.ErrInUse) && waitForSocket(socket): // a process is starting
			return asked(socket, do)
		case errors.Is(err, database.ErrInUse):
			return fmt.Errorf("%w, and it does not accept connections at %s; stop it first", err, socket)
		case err != nil:
			return err
		}
		v.opened = opened
	}

	if v.idle != nil {
		v.idle.Stop()
	}
	err := do(v.opened)
	v.idle = time.AfterFunc(idleAfter, v.Close)
	return err
}

// asked calls do with the topics of the process at a socket.
func asked(socket string, do func(log topic.Log) error) error {
	remote := local.Dial(socket)
	defer remote.Close()
	return do(remote)
}

// Close closes the folder.
func (v *visit) Close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.opened != nil {
		v.opened.Close()
		v.opened = nil
	}
}

// visited is with for a call that returns something.
func visited[T any](ctx context.Context, v *visit, do func(log topic.Log) (T, error)) (result T, err error) {
	err = v.with(ctx, func(log topic.Log) error {
		result, err = do(log)
		return err
	})
	return result, err
}

// Partitions implements topic.Spans.
func (v *visit) Partitions(ctx context.Context, name string) (int, error) {
	return visited(ctx, v, func(log topic.Log) (int, error) { return log.Partitions(ctx, name) })
}

// Offsets implements topic.Spans.
func (v *visit) Offsets(ctx context.Context, name string) ([]topic.Span, error) {
	return visited(ctx, v, func(log topic.Log) ([]topic.Span, error) { return log.Offsets(ctx, name) })
}

// PartitionSpan implements topic.Spans.
func (v *visit) PartitionSpan(ctx context.Context, name string, partition int) (topic.Span, error) {
	return visited(ctx, v, func(log topic.Log) (topic.Span, error) { return log.PartitionSpan(ctx, name, partition) })
}

// OffsetAt implements topic.Spans.
func (v *visit) OffsetAt(ctx context.Context, name string, partition int, at time.Time) (int64, error) {
	return visited(ctx, v, func(log topic.Log) (int64, error) { return log.OffsetAt(ctx, name, partition, at) })
}

// EnsureTopics implements topic.Topics.
func (v *visit) EnsureTopics(ctx context.Context, topics ...topic.Topic) error {
	return v.with(ctx, func(log topic.Log) error { return log.EnsureTopics(ctx, topics...) })
}

// TopicSettings implements topic.Topics.
func (v *visit) TopicSettings(ctx context.Context, name string) (map[string]string, error) {
	return visited(ctx, v, func(log topic.Log) (map[string]string, error) { return log.TopicSettings(ctx, name) })
}

// Cluster implements topic.Topics.
func (v *visit) Cluster(ctx context.Context) (topic.Cluster, error) {
	return visited(ctx, v, func(log topic.Log) (topic.Cluster, error) { return log.Cluster(ctx) })
}

// Committed implements topic.Positions.
func (v *visit) Committed(ctx context.Context, group, name string) ([]topic.Commit, error) {
	return visited(ctx, v, func(log topic.Log) ([]topic.Commit, error) { return log.Committed(ctx, group, name) })
}

// Groups implements topic.Positions.
func (v *visit) Groups(ctx context.Context, prefix string, named ...string) ([]topic.GroupState, error) {
	return visited(ctx, v, func(log topic.Log) ([]topic.GroupState, error) { return log.Groups(ctx, prefix, named...) })
}

// Appender and RunGroup are for parts: a command only reads. The socket of a process refuses both.

// Appender implements topic.Log.
func (v *visit) Appender(of topic.AppenderConfig) topic.Appender {
	return local.Dial(v.settings.TopicsSocket()).Appender(of)
}

// RunGroup implements topic.Members.
func (v *visit) RunGroup(ctx context.Context, of topic.Group, own topic.Owner) error {
	return local.Dial(v.settings.TopicsSocket()).RunGroup(ctx, of, own)
}

// Reader implements topic.Log.
func (v *visit) Reader(name string, partition int, offset int64, maxBytes int) topic.Reader {
	return &visitor{visit: v, topic: name, partition: partition, next: offset, maxBytes: maxBytes}
}

// A visitor reads a partition.
type visitor struct {
	visit     *visit
	topic     string
	partition int
	next      int64
	maxBytes  int
	span      topic.Span
	looked    time.Time // when there was nothing behind next
}

const (
	emptyPause = 500 * time.Millisecond
	// lookAgain is when the folder is opened again after it had nothing new. As long as no process runs it gets nothing;
	// one may have run in between.
	lookAgain = 5 * time.Second
)

// Next implements topic.Reader.
func (r *visitor) Next() int64 { return r.next }

// SetNext implements topic.Reader.
func (r *visitor) SetNext(offset int64) { r.next, r.looked = offset, time.Time{} }

// Span implements topic.Reader.
func (r *visitor) Span() topic.Span { return r.span }

// Identity implements topic.Reader.
func (r *visitor) Identity(ctx context.Context) (topic.Identity, error) {
	return visited(ctx, r.visit, func(log topic.Log) (topic.Identity, error) {
		return log.Reader(r.topic, r.partition, r.next, r.maxBytes).Identity(ctx)
	})
}

// Fetch implements topic.Reader.
func (r *visitor) Fetch(ctx context.Context) ([]topic.Record, error) {
	if time.Since(r.looked) < lookAgain && !daemon.Listens(r.visit.settings.TopicsSocket()) {
		sleep.For(ctx, emptyPause)
		return nil, ctx.Err()
	}

	records, err := visited(ctx, r.visit, func(log topic.Log) ([]topic.Record, error) {
		span, err := log.PartitionSpan(ctx, r.topic, r.partition)
		if err != nil {
			return nil, err
		}
		if r.span = span; r.next == span.End {
			return nil, nil
		}
		return r.fetch(ctx, log)
	})
	if len(records) == 0 && err == nil {
		r.looked = time.Now()
		sleep.For(ctx, emptyPause)
		return nil, ctx.Err()
	}
	return records, err
}

// fetch reads records, and copies them, because the folder may be closed before they are used.
func (r *visitor) fetch(ctx context.Context, log topic.Log) ([]topic.Record, error) {
	from := log.Reader(r.topic, r.partition, r.next, r.maxBytes)
	found, err := from.Fetch(ctx)
	r.next, r.span = from.Next(), from.Span()
	records := make([]topic.Record, len(found))
	for i, record := range found {
		record.Key, record.Value = bytes.Clone(record.Key), bytes.Clone(record.Value)
		records[i] = record
	}
	return records, err
}
