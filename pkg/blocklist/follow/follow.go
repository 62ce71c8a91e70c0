// Package follow keeps a blocklist.Set equal to its source: the topic blocklist, or another enforcer.
//
// Invariant. The Set contains a complete list: the current one, or the last complete one. A log that is read from its
// beginning, or a snapshot, fills a second list, which takes the first one's place when it is complete. A list that is
// cut off, damaged, a different list or older changes nothing, and Status reports it. The age of a list is that of the
// oldest watermark that it rests on; followers of followers report the same age.
//
// From a log. A list is complete under two conditions. For each partition of the hits, a watermark of the list was read
// whose Since is not before the offset where reading began. And everything was read that the log contained then. When
// the watermarks have several list ids, the one with the greatest epoch is valid, and watermarks of the others do not
// count. A watermark of a greater epoch than the current list's, and records that the log no longer has, start a read
// from the beginning of the log. A log that ends before the current list's last record was created again or has lost
// records: then only a list of a greater epoch takes the old one's place. So a deleted topic empties no list. Meanwhile
// new records of the log also apply to the old list. So it is with a log that is another topic than that of the current
// list, however long it is: all its records apply to the old list. The topic of the list is kept in FILE.topics.
//
// From another enforcer. A snapshot comes first, then changes by long polls, each complete or not at all. Orders that
// wait for the log there are active here.
//
// The last complete list is kept on disk, and New reads it: a snapshot in a file, complete or not at all, and next to
// it, in FILE.changes, the changes since then. Changes are on disk within a second, orders that wait for the log at the
// source at once. The snapshot is written when the first list or another one was read, when the list changed and the
// last snapshot was SaveEvery ago, at the end, and when the files were deleted. When the disk fails, the write is tried
// again every 5 s.
//
// Run starts one goroutine and waits for it; it returns when its context is done. Until then the Set's other writers
// may write too. Any number of goroutines may call Status. Memory: while a list is filled there are two.
package follow

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"weir/internal/keytext"
	"weir/internal/telemetry"
	"weir/pkg/blocklist"
)

// Config names the Set to keep up to date, and the file to keep it in.
type Config struct {
	Set       *blocklist.Set
	File      string        // for the last complete list; "" keeps none
	SaveEvery time.Duration // between snapshots; 0 is 5 minutes
	Logger    *slog.Logger  // nil logs nothing
	Now       func() time.Time
}

// A Status reports the state of following.
type Status struct {
	Trouble string    // why the list does not keep up; empty when it does
	Since   time.Time // of the trouble
	Filling bool      // a list is being read from its beginning
	Fills   int64     // how many reads from the beginning were started
	Unread  int64     // records that were left out: damaged, of a later version, or without room
	Saved   time.Time // when the file was last written or read; zero: never
	Unsaved string    // why the last write of the file failed; empty when it did not
}

// A Follower keeps a Set up to date.
type Follower struct {
	config Config
	faults *telemetry.Faults
	from   source
	saver  saver
	topics topics

	clock int64 // the wall clock when clockWentBack last looked, Unix ms; only the source uses it

	mu     sync.Mutex
	status Status
}

// clockStep is by how much the wall clock must go back before the list is read again.
const clockStep = 30 * time.Second

// clockWentBack reports whether the wall clock went back since the last call. Entries that seemed to be over may have
// been forgotten then, and only the source still has them.
func (f *Follower) clockWentBack() bool {
	before := f.clock
	f.clock = f.now()
	if before-f.clock < clockStep.Milliseconds() {
		return false
	}
	f.config.Logger.Warn("the clock went back: the list is read again", "seconds", (before-f.clock)/1000)
	return true
}

// A source is the origin of a list.
type source interface {
	// run follows until the context is done.
	run(ctx context.Context)
}

// NewFromLog makes a Follower that reads the topic blocklist. It reads the last complete list from the file, if there
// is one.
func NewFromLog(config Config, log Log) *Follower {
	f := newFollower(config)
	f.from = &logSource{Follower: f, log: log}
	return f
}

// NewFromUpstream makes a Follower of another enforcer. It reads the last complete list from the file, if there is one.
func NewFromUpstream(config Config, upstream Upstream) (*Follower, error) {
	f := newFollower(config)
	from, err := newUpstreamSource(f, upstream)
	f.from = from
	return f, err
}

func newFollower(config Config) *Follower {
	config.Logger = cmp.Or(config.Logger, slog.New(slog.DiscardHandler))
	if config.Now == nil {
		config.Now = time.Now
	}
	config.SaveEvery = cmp.Or(config.SaveEvery, 5*time.Minute)

	f := &Follower{config: config, faults: telemetry.NewFaults(config.Logger)}
	f.saver.Follower = f
	f.saver.load()
	if err := f.topics.load(config.File); err != nil {
		config.Logger.Error("blocklist: the topic of the last complete list is not known", "error", err)
	}
	return f
}

// Run follows until the context is done, and then keeps the list in the file once more.
func (f *Follower) Run(ctx context.Context) {
	var saving sync.WaitGroup
	saving.Go(func() { f.saver.run(ctx) })
	f.from.run(ctx)
	saving.Wait()
}

// Status reports the state of following.
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

// trouble records why the list does not keep up. Operations are a closed set.
func (f *Follower) trouble(operation string, err error) {
	f.faults.Note(operation, err)
	f.note(err)
}

// longestTrouble is how much of an error the status has. It may have what the upstream sent.
const longestTrouble = 4 << 10

// note puts the reason why the list does not keep up into the status.
func (f *Follower) note(err error) {
	f.change(func(s *Status) {
		if s.Trouble == "" {
			s.Since = f.config.Now()
		}
		s.Trouble = keytext.Beginning(err.Error(), longestTrouble)
	})
}

func (f *Follower) well(operation string) {
	f.faults.Over(operation)
	f.change(func(s *Status) { s.Trouble, s.Since = "", time.Time{} })
}

// unread counts records that could not be applied.
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
