// Package follow keeps a blocklist.Set as it is where it comes from: the topic blocklist, or another enforcer.
//
// What always holds. The Set holds a whole list or the last whole one: what is read from a log's beginning, or as a
// snapshot, fills another list beside it, which takes its place when it is whole. A list that is cut off, damaged,
// another one or older changes nothing, and Status says so. How old a list is says the oldest mark that it rests on;
// followers of followers say the same.
//
// From a log. A list is whole when for each partition of the hits a mark of the list was read whose Since is not
// before the offset where reading began, and all was read that the log held then. Of several list ids among the marks
// the one with the greatest epoch is believed; marks of others do not count. A mark of a greater epoch than that of the
// list held, and records that the log no longer has, begin a reading from the log's start. A log that ends before what
// is held of it was made anew, or has lost records: then only a list of a greater epoch takes the old one's place. So
// a topic that was deleted empties no list. Meanwhile records that are new in the log are in force in the old one too.
//
// From another enforcer. A snapshot first, then changes by long polls, each complete or not at all. Orders that wait
// for the log there are in force here.
//
// The last whole list is kept on disk, which New reads: a snapshot in a file, whole or not at all, and next to it, in
// FILE.changes, what changed since. What is in force is there within a second, orders that wait for the log where the list
// comes from at once. The snapshot is written when the first list or another one was read, when the list changed and the last
// snapshot was SaveEvery ago, at the end, and when the files were deleted. On a disk that fails it is tried every 5 s.
//
// Run starts one goroutine and waits for it; it returns when its context is done. Until then the Set's other
// writers may write too. A Follower's Status may be asked by any number of goroutines. Memory: while a list is filled
// there are two.
package follow

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"weir/internal/telemetry"
	"weir/pkg/blocklist"
)

// Config says what is kept up to date, and where it is kept besides.
type Config struct {
	Set       *blocklist.Set
	File      string        // for the last whole list; "" keeps none
	SaveEvery time.Duration // between snapshots; 0 is 5 minutes
	Logger    *slog.Logger  // nil is silence
	Now       func() time.Time
}

// A Status says how following goes.
type Status struct {
	Trouble string    // why the list does not keep up; empty when it does
	Since   time.Time // of the trouble
	Filling bool      // a list is being read from its beginning
	Fills   int64     // how many were begun
	Unread  int64     // records that were left out: damaged, of a later version, or without room
	Saved   time.Time // when the file was last written or read; zero: never
}

// A Follower keeps a Set up to date.
type Follower struct {
	config Config
	faults *telemetry.Faults
	from   source
	saver  saver

	mu     sync.Mutex
	status Status
}

// A source is where a list comes from.
type source interface {
	// run follows until the context is done.
	run(ctx context.Context)
}

// NewFromLog makes one that reads the topic blocklist. It reads the last whole list, if there is one.
func NewFromLog(config Config, log Log) *Follower {
	f := newFollower(config)
	f.from = &logSource{Follower: f, log: log}
	return f
}

// NewFromUpstream makes one that follows another enforcer. It reads the last whole list, if there is one.
func NewFromUpstream(config Config, upstream Upstream) (*Follower, error) {
	f := newFollower(config)
	from, err := newUpstreamSource(f, upstream)
	f.from = from
	return f, err
}

func newFollower(config Config) *Follower {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	if config.SaveEvery == 0 {
		config.SaveEvery = 5 * time.Minute
	}

	f := &Follower{config: config, faults: telemetry.NewFaults(config.Logger)}
	f.saver.Follower = f
	f.saver.load()
	return f
}

// Run follows until the context is done, and keeps the list in the file once more then.
func (f *Follower) Run(ctx context.Context) {
	var saving sync.WaitGroup
	saving.Go(func() { f.saver.run(ctx) })
	f.from.run(ctx)
	saving.Wait()
}

// Status says how following goes.
func (f *Follower) Status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status
}

func (f *Follower) change(change func(*Status)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.status)
}

func (f *Follower) now() int64 { return f.config.Now().UnixMilli() }

// trouble says why the list does not keep up. Operations are a closed set.
func (f *Follower) trouble(operation string, err error) {
	f.faults.Note(operation, err)
	f.note(err)
}

// note has the status say why the list does not keep up.
func (f *Follower) note(err error) {
	f.change(func(s *Status) {
		if s.Trouble == "" {
			s.Since = f.config.Now()
		}
		s.Trouble = err.Error()
	})
}

func (f *Follower) well(operation string) {
	f.faults.Over(operation)
	f.change(func(s *Status) { s.Trouble, s.Since = "", time.Time{} })
}

// unread counts records that could not be taken.
func (f *Follower) unread(err error) {
	if err == nil {
		return
	}
	f.faults.Note("records", err)
	count := int64(1)
	var many interface{ Unwrap() []error }
	if errors.As(err, &many) {
		count = int64(len(many.Unwrap()))
	}
	f.change(func(s *Status) { s.Unread += count })
}

func (f *Follower) filling(yes bool) {
	f.change(func(s *Status) {
		if s.Filling = yes; yes {
			s.Fills++
		}
	})
}

// sleep waits for a while, or until the context is done.
func sleep(ctx context.Context, pause time.Duration) {
	select {
	case <-time.After(pause):
	case <-ctx.Done():
	}
}
