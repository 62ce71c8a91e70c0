// Package local keeps topics in a database of this machine, for one process.
//
// # What holds
//
// A message is answered when it is on the disk. One goroutine writes: all that is accepted while it syncs goes into its
// next write, over all topics, so many callers share one sync. One call of Send accepts all of its messages for one
// write: after a crash all of them are there, or none. Together extends that to several topics and to notes, which are
// values by key next to the records. A caller that can make its messages again need not have them synced
// (TogetherUnsynced): they are answered and read before. A crash may lose the last of them, but nothing that other
// records rest on, because those are written later.
//
// A compacted topic keeps the last record of each key. The write that brings a record also deletes the one before it, so
// there is no moment at which a crash could lose both. A record without a value goes a day after it came
// (delete.retention.ms). Other topics lose records by age (retention.ms) and size (retention.bytes), once a minute.
//
// Readers see a record when it is answered. They get the latest records from memory, without a copy; Options.TailBytes
// bounds these. Older ones are read from the database. A reader that waits is woken by the write.
//
// Groups exist in memory: all members are in this process. Only partitions that change hands are given up; owners of
// others go on. An owner that does not return within Group.Rebalance loses its partition: it cannot commit any more.
//
// A disk that fails makes writes wait, and readers of old records pause, until the database works again; then all that
// was answered is there: it is written again where it was not synced. Records that were just being written may be there
// twice. When the folder was deleted, the topics are made again, empty and with other identities: offsets begin at 0, as
// in a topic of Kafka that was deleted and made.
//
// Limits: a record has at most 1 MiB, a key of a compacted topic 32 KiB, a topic 10,000 partitions, and there are at most
// 1,000 topics. Memory: the queues of appenders, twice the largest write, TailBytes, and the answers of readers.
//
// # The keys of the database
//
//	fe 01; the name                                      a topic: its number, partitions and settings
//	fe 02; 4 bytes of its number; 4 of the partition     where the partition begins, and at least where it ends
//	fe 03; topic; partition; 8 bytes of the offset       a record
//	fe 04; topic; partition; the key                     the last record of the key, in a compacted topic
//	fe 05; topic; partition; 8 bytes of the offset       a record without a value, in a compacted topic
//	fe 06; the group, the topic; the partition           a commit
//	fe 07; the key                                       a note
//
// Open starts a goroutine, Close ends it. All methods may be called at the same time; a Reader belongs to one goroutine.
package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"weir/internal/database"
	"weir/internal/sleep"
	"weir/internal/topic"
)

const (
	maxRecord     = 1 << 20 // bytes of key and value
	maxKey        = 32 << 10
	maxNote       = 8 << 20
	maxPartitions = 10_000
	maxTopics     = 1000
	maxName       = 249 // bytes of a topic's or a group's name, as in Kafka

	longPoll     = 500 * time.Millisecond // how long a reader waits for a record
	patientPoll  = 2 * time.Second        // the same for a patient one
	defaultTail  = 16 << 20
	defaultQueue = 64 << 20
	defaultFetch = 4 << 20
	defaultGrace = 30 * time.Second // for an owner to return
	writeBytes   = 1 << 20          // after which a write takes no more calls
	mostUnsynced = 1 << 20          // bytes, after which the next write is synced
)

// Options say where topics are kept.
type Options struct {
	Database *database.DB // opened with SplitAt, and closed by the caller after the Log

	TailBytes   int64         // of the latest records that are kept in memory; 0 is 16 MiB
	RetainEvery time.Duration // between two checks for old records; 0 is a minute
	Logger      *slog.Logger  // nil logs nothing
	Now         func() time.Time
}

// A Log is a set of topics in a database.
type Log struct {
	options  Options
	database *database.DB
	logger   *slog.Logger
	loaded   atomic.Pointer[pebble.DB] // the opening that the state in memory belongs to

	// Of the writer:
	unsyncedBytes int
	number        uint64 // of the last write that was tried

	mu       sync.Mutex
	unsynced []unsyncedWrite // the writer alone changes it
	remade   remade
	topics   map[string]*storedTopic
	changed  chan struct{} // closed when a topic was made

	queue  queue
	tails  tails
	groups groups
	ended  chan struct{} // closed when the writer has ended
	stop   context.CancelFunc
}

var _ topic.Log = (*Log)(nil)

// Open reads which topics there are. While the disk fails they are not known: calls wait, or return ErrUnreachable, until
// it works.
func Open(ctx context.Context, o Options) (*Log, error) {
	o.TailBytes = cmp.Or(o.TailBytes, defaultTail)
	o.RetainEvery = cmp.Or(o.RetainEvery, time.Minute)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}

	l := &Log{options: o, database: o.Database, logger: o.Logger, topics: map[string]*storedTopic{}, changed: make(chan struct{}),
		ended: make(chan struct{}), tails: tails{most: o.TailBytes}, groups: groups{named: map[string]*group{}}}
	l.queue.wake, l.queue.abandoned = make(chan struct{}, 1), make(chan struct{})
	l.database.FirstAgain(l.remake)
	if err := l.load(ctx); err != nil && !errors.Is(err, database.ErrBroken) {
		return nil, fmt.Errorf("opening the topics: %w", err)
	}

	closing, stop := context.WithCancel(context.Background())
	l.stop = stop
	go func() {
		defer close(l.ended)
		w := &writer{Log: l}
		w.run(closing)
	}()
	return l, nil
}

// Close ends the Log. Appenders, readers and members must have ended before.
func (l *Log) Close() {
	l.stop()
	<-l.ended
}

// Sync returns when all that was answered before is on the disk.
func (l *Log) Sync(ctx context.Context) error {
	return l.queue.task(ctx, func(ctx context.Context) error {
		if len(l.unsynced) == 0 {
			return nil
		}
		_, err := on(ctx, l, func(db *pebble.DB) (struct{}, error) { return struct{}{}, db.LogData(nil, pebble.Sync) })
		if err != nil {
			return fmt.Errorf("syncing the topics: %w", l.cause(ctx, err))
		}
		l.forgetUnsynced()
		return nil
	})
}

var errClosed = topic.Errorf(topic.ErrClosed, "the log is closed")

// closed reports whether the Log was closed.
func (l *Log) closed() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// cause explains an error of the database.
func (l *Log) cause(ctx context.Context, err error) error {
	var known *topic.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case l.closed():
		return errClosed
	case errors.As(err, &known):
		return err
	case errors.Is(err, database.ErrBroken), errors.Is(err, errReopened):
		return &topic.Error{Text: err.Error(), Kind: topic.ErrUnreachable, Cause: err}
	}
	return &topic.Error{Text: err.Error(), Kind: topic.ErrOther, Cause: err}
}

// errReopened reports that the database was opened again, and that its state is not loaded yet.
var errReopened = errors.New("the database was opened again a moment ago")

// on calls do with the opening that the state in memory belongs to.
func on[T any](ctx context.Context, l *Log, do func(*pebble.DB) (T, error)) (T, error) {
	value, err := database.Do(ctx, l.database, func(db *pebble.DB) (value T, err error) {
		if l.loaded.Load() != db {
			return value, errReopened
		}
		return do(db)
	})
	if errors.Is(err, errReopened) {
		sleep.Wake(l.queue.wake) // the writer loads it
	}
	return value, err
}
