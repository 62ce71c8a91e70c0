// Package past is an index of the topic events on this machine's disk: it answers who was blocked when, by which rule or
// person, and who was blocked at an instant.
//
// # What holds
//
// The index has every event of the topic up to an offset of each partition, and each once, though the topic may have it
// twice. It is written by one goroutine that Run starts, in batches that have the offsets too: after a kill it continues
// from some earlier moment, and then has the same events. When the folder is missing or damaged, or the topic is another
// one or shorter than before, the index is made again from the topic.
//
// Run reads one partition after the other with one request at a time, and while there is nothing new a request waits up
// to half a second. So an idle topic costs two requests a second, and with many partitions an event is found later. While
// the index is made, Run pauses as long as it works.
//
// Events are deleted when they are older than the topic keeps them, and the oldest when there are more than
// Config.MaxEvents. Memory is bounded by Config.MemoryBytes, and by a page for each search. Any number of goroutines may search.
//
// # The database
//
// An event has a place: its time (8 bytes) and a number in the order of arrival (8 bytes). All numbers in keys are big
// endian. A list is a set of places, under a name that no other list's name begins with. The first byte of a key:
//
//	m   how far the index is, and the kinds: rule, event, order and person, which many events have in common
//	e   place: an event, with its kind and key before its line
//	k   kind, place
//	t   key as people know it, place
//	f   name of a field, value, place
//	x   bits of an address (32 or 128), length of a prefix, prefix, place: of events about exactly this prefix
//	l   the same, of all events within prefixes of some lengths
//	s   unit (an entry's id, or the target of a manual entry): its last event, and when that is active
//	u   what makes events the same
//	c   number of an event: when it was active, where its line does not say that
//	a   level, number of a block, side, instant, place: see below
//
// A question for kinds merges the lists of the matching kinds, and one for addresses those of the prefixes that overlap.
//
// # Who was active at an instant
//
// The last event of an entry is active from its time until the entry ends or has another event. These spans are an
// interval tree: each is in the smallest aligned block of 2^level milliseconds that contains it. Spans of one block
// contain the block's middle. They are sorted by start and by end, so of each block that contains the instant one range
// of one order is the answer, and nothing else is read.
package past

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/database"
	"weir/internal/sleep"
	"weir/internal/telemetry"
	"weir/internal/topic"
)

// Config configures an index.
type Config struct {
	Log       topic.Log
	Topic     string
	Folder    string
	Retention time.Duration // of the topic
	MaxEvents int64

	MemoryBytes int64 // 32 MiB unless given
	Logger      *slog.Logger
	Metrics     prometheus.Registerer // nil registers nothing
	Now         func() time.Time      // nil: the wall clock
}

// An Index answers questions about events.
type Index struct {
	config   Config
	faults   *telemetry.Faults
	patience time.Duration // of a search
	current  atomic.Pointer[opened]

	behind, count, bytes, oldest, asOf atomic.Int64 // times in Unix milliseconds; asOf is 0 before the topic was read
}

// An opened is the database of an index.
type opened struct {
	db    *database.DB
	kinds atomic.Pointer[kinds]
}

// ErrNotReady reports that the index is not open yet, or that its disk fails.
var ErrNotReady = errors.New("the index of events cannot be read now")

// patience is how long a search looks for events before it answers with those that it has.
const patience = 150 * time.Millisecond

// New makes an index. It opens nothing: Run does.
func New(c Config) *Index {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.MemoryBytes == 0 {
		c.MemoryBytes = 32 << 20
	}
	x := &Index{config: c, faults: telemetry.NewFaults(c.Logger), patience: patience}
	x.measure(c.Metrics)
	return x
}

// Search answers a query. The errors are ErrNotReady, ErrAfter, ErrTooMany and the context's.
func (x *Index) Search(ctx context.Context, q Query) (*Page, error) {
	in := x.current.Load()
	if in == nil {
		return nil, ErrNotReady
	}
	q.Limit = max(1, min(q.Limit, MaxLimit))
	q.sought = nil
	status := x.Status()
	r, err := database.Do(ctx, in.db, func(db *pebble.DB) (*reader, error) {
		kinds := in.kinds.Load()
		if kinds == nil {
			return nil, ErrNotReady
		}
		return search(ctx, db, &q, kinds, x.patience)
	})
	switch {
	case errors.Is(err, ErrAfter), errors.Is(err, ErrTooMany), errors.Is(err, ErrNotReady), ctx.Err() != nil:
		return nil, err
	case err != nil:
		x.faults.Note("search", fmt.Errorf("searching the index of events: %w", err))
		return nil, fmt.Errorf("%w: %w", ErrNotReady, err)
	}
	p := &Page{Events: r.found, AsOf: status.AsOf, Oldest: status.Oldest, Behind: status.Behind}
	if r.more {
		p.Next = r.last.cursor()
	}
	return p, nil
}

// A Status is the state of an index.
type Status struct {
	Ready  bool       `json:"ready"`  // it can be asked
	Events int64      `json:"events"` // how many it has
	Behind int64      `json:"behind"` // records of the topic that it does not have yet
	Bytes  int64      `json:"bytes"`
	AsOf   *time.Time `json:"as_of"`
	Oldest *time.Time `json:"oldest"`
}

// Status returns the state.
func (x *Index) Status() Status {
	return Status{Ready: x.current.Load() != nil, Events: x.count.Load(), Behind: x.behind.Load(), Bytes: x.bytes.Load(),
		AsOf: instant(x.asOf.Load()), Oldest: instant(x.oldest.Load())}
}

func instant(milli int64) *time.Time {
	if milli == 0 {
		return nil
	}
	at := time.UnixMilli(milli).UTC()
	return &at
}

// openAgain is the pause before a folder is opened again that could not be.
const openAgain = 5 * time.Second

// Run keeps the index up to date until the context is done.
func (x *Index) Run(ctx context.Context) {
	for ctx.Err() == nil {
		err := x.runOnce(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errDamaged), errors.Is(err, database.ErrDamaged):
			x.config.Logger.Warn("the index of events is damaged, and is made again from the topic", "folder", x.config.Folder, "error", err)
			if err := os.RemoveAll(x.config.Folder); err != nil {
				x.faults.Note("index", fmt.Errorf("removing the damaged index of events: %w", err))
				sleep.For(ctx, openAgain)
			}
		default:
			x.faults.Note("index", err)
			sleep.For(ctx, openAgain)
		}
	}
}

// runOnce opens the folder, and keeps the index up to date until it is damaged.
func (x *Index) runOnce(ctx context.Context) error {
	db, err := database.Open(ctx, database.Options{Folder: x.config.Folder, MemoryBytes: x.config.MemoryBytes, WriteBytes: x.config.MemoryBytes / 4, Log: x.config.Logger})
	if err != nil {
		return fmt.Errorf("opening the index of events: %w", err)
	}
	in := &opened{db: db}
	defer func() {
		x.current.Store(nil)
		_ = db.Close() // a disk that fails was logged, and what is lost is read again
	}()
	f := &follower{Index: x, in: in}
	return f.run(ctx)
}

func (x *Index) measure(r prometheus.Registerer) {
	if r == nil {
		return
	}
	gauge := func(name, help string, value *atomic.Int64) {
		g := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "weir_enforcer_events_" + name, Help: help}, func() float64 { return float64(value.Load()) })
		r.Unregister(g)
		r.MustRegister(g)
	}
	gauge("indexed", "Events in the index of weir.events.", &x.count)
	gauge("behind", "Records of weir.events that the index does not have yet.", &x.behind)
	gauge("bytes", "Size of the index of weir.events on disk.", &x.bytes)
}
