// Package enforcer serves a blocklist over HTTP: edges send checks, followers read the list, and people make manual
// entries.
//
// For a check, the headers of the edge give the request (dialects), pkg/request finds its client, and pkg/rule its key
// for each rule that may refuse it. Then the enforcer asks the list once. A check takes no lock and does no I/O except
// its answer, and waits for Config.InlineStore, if there is one and inline rules apply, for at most its Budget. A refusal has its duration, the broken limit, and a field that marks it in logs. When there is no list at
// all, not even an old one, the configuration decides whether requests pass.
//
// Guarantees. An order goes to disk, then becomes active here, then goes into the list on disk, and then it is
// answered. Orders are sent to Kafka in the order in which they were given, and kept until Kafka has them, also when
// the process ends in between. Changing the list needs a key of the role write, or the unix socket, for which the
// system reports the user. A list is answered completely or not at all. No body causes a panic, or needs more memory
// than a bound.
//
// Bounds: 10,000 connections, half of them of one address that has shown no key, headers of 72 KiB that have to be
// there within 10 s, bodies of 64 KiB, 4,096 followers, 10,000 orders that wait for Kafka, 1,000 entries in an answer
// of find. A follower that does not keep up gets a snapshot, and delays no other.
//
// Open starts nothing; Run starts a goroutine for each connection and five more, and waits for all of them. Any number
// of goroutines may call an Enforcer. It does not keep the list up to date: package follow does, from Kafka or from
// another enforcer. The packages below it serve edges that send no checks: crowdsec, plain, nftables, haproxy.
package enforcer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/keys"
	"weir/internal/limited"
	"weir/internal/origin"
	"weir/internal/telemetry"
	"weir/pkg/blocklist"
	"weir/pkg/enforcer/past"
	"weir/pkg/enforcer/tally"
	"weir/pkg/enforcer/whatif"
	"weir/pkg/evidence"
	"weir/pkg/inline"
	"weir/pkg/inline/stored"
	"weir/pkg/rule"
)

// Config configures an enforcer.
type Config struct {
	Set    *blocklist.Set // the list; the caller keeps it up to date
	Ruling Ruling

	// Listen is the address for checks and the list; empty opens no port. TLS encrypts it; nil does not.
	Listen string
	TLS    *tls.Config
	// Socket is the unix socket whose users are admin; empty is none.
	Socket string
	// Keys are the API keys. Without keys (nil) every client that can connect may read.
	Keys *keys.File
	// Hosts are further names of this machine, besides localhost, that requests without keys may use.
	Hosts []string

	// Refusal is the status of a refusal at the path for any edge.
	Refusal         int
	LimitHeaders    LimitHeaders
	DenyWithoutList bool

	// Folder keeps orders that Kafka does not have yet. Sinks take them, with the numbers of the topics' partitions.
	// Without sinks no orders are accepted, and Follows names the place for them.
	Folder                           string
	Sinks                            *Sinks
	EventsPartitions, HitsPartitions int
	Follows                          string

	// Evidence returns the last requests that counted for the entry with an id; nil when this enforcer keeps none.
	Evidence func(id string) (*evidence.Record, bool)

	// Keep returns when the active list is on the disk; nil when the list is not kept. Orders are answered after it.
	Keep func() error
	// Unsaved returns why the list is not on the disk; nil as Keep.
	Unsaved func() string

	// Inline bounds the memory for inline rules.
	Inline inline.Config
	// InlineStore counts them instead, and others count there too; nil is the memory.
	InlineStore *InlineStore
	// History takes the attempts at inline rules; nil is none.
	History *History

	// Events is the index of events; nil is none, and NoEvents says why.
	Events   *past.Index
	NoEvents string

	// WhatIf answers what other limits of a rule would have done; nil where the hits cannot be read.
	WhatIf func(ctx context.Context, q whatif.Question) (*whatif.Answer, error)

	// Refused is called for each refusal, with the entry and the client. It must not wait. It may be nil.
	Refused func(entry *blocklist.Entry, client netip.Addr)

	Logger  *slog.Logger
	Metrics prometheus.Registerer
	Now     func() time.Time // nil: the wall clock
}

// An Enforcer serves a list.
type Enforcer struct {
	config   Config
	plain    *dialect // of checkPath itself
	ruling   atomic.Pointer[ruling]
	inline   inline.Store
	memory   *inline.Memory // nil where a store is shared
	history  *history       // nil when attempts are not kept
	rows     *historyRows   // nil when the shared store keeps none
	metrics  *metrics
	faults   *telemetry.Faults
	mux      *http.ServeMux
	outbox   *outbox    // nil when no orders are accepted
	giving   sync.Mutex // held while an order goes to the outbox and into the list
	commands *commands

	shared       *stored.Store // nil without; with its metrics
	storeMetrics *storeMetrics
	storeAway    func() bool

	pages      origin.Pages
	finding    *limited.Places // places for searches of the list
	replaying  *limited.Places // the place for a question about other limits
	listing    *limited.Places // places for answers with the complete list
	exporting  *limited.Places // places for exports of events
	catchingUp *limited.Places // places for answers with many changes
	turns      turns
	searches   turns
	tally      *tally.Tally
	day        day
	delta      delta
	patience   time.Duration

	following atomic.Int64 // followers over HTTP
	ending    chan struct{}
	end       sync.Once
	endings   sync.RWMutex // End reads it; Run locks it at its end
	leases    leases
	address   string        // valid once serving is closed
	sockets   []os.FileInfo // of enforcer.socket, as often as it was made; of Run, then of keepSocket
	serving   chan struct{}
}

// Open makes an enforcer and applies earlier orders that wait for Kafka. It starts nothing: Run does.
func Open(c Config) (*Enforcer, error) {
	if err := c.guard(); err != nil {
		return nil, err
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Inline.Now = c.Now
	e := &Enforcer{
		config: c, plain: anyEdge(c.Refusal),
		faults: telemetry.NewFaults(c.Logger), commands: newCommands(c.HitsPartitions), ending: make(chan struct{}), serving: make(chan struct{}),
		patience: usualPatience, pages: c.pages(), finding: limited.NewPlaces(maxFinding), replaying: limited.NewPlaces(1), listing: limited.NewPlaces(maxListing),
		exporting: limited.NewPlaces(maxExporting), catchingUp: limited.NewPlaces(maxCatchingUp), turns: newTurns(), searches: newTurns(), tally: tally.New(c.Now()),
		leases: leases{seed: maphash.MakeSeed()},
	}

	e.history, e.rows = newHistory(&c, e.faults), newHistoryRows(&c, e.faults)
	e.openInline(&c)
	e.metrics = newMetrics(c.Metrics, c.Set, e.inline, e.tally, c.Now)
	if e.shared != nil {
		e.storeMetrics = newStoreMetrics(c.Metrics, e.storeAway)
	}
	if err := e.Rule(c.Ruling); err != nil {
		return nil, err
	}
	e.mux = e.routes()
	if c.Sinks == nil {
		return e, nil
	}

	outbox, waiting, err := openOutbox(filepath.Join(c.Folder, "orders"), c.Logger)
	if err != nil {
		return nil, err
	}

	// The process ended before Kafka had these, and the list that is read from Kafka does not have them.
	e.outbox = outbox
	now := c.Now().UnixMilli()
	for _, p := range waiting {
		orders, _ := p.orders() // openOutbox has checked that they can be read
		for _, order := range orders {
			if err := c.Set.Order(order, now); err != nil {
				return nil, fmt.Errorf("applying an order that waits to be sent: %w", err)
			}
		}
	}

	return e, nil
}

// Mount adds other ways to read the list, before Run. They must authorise callers by Admit or Guard.
func (e *Enforcer) Mount(add func(*http.ServeMux)) { add(e.mux) }

// Rules returns the active rules for lists that are enforced without checks. Such a list never blocks this machine
// itself, or a trusted proxy with other clients behind it.
func (e *Enforcer) Rules() *rule.Set { return e.ruling.Load().elsewhere }

// Refuses reports whether refusals are active at all.
func (e *Enforcer) Refuses() bool { return !e.ruling.Load().Shadow }

// Serving returns a channel that is closed once the enforcer listens.
func (e *Enforcer) Serving() <-chan struct{} { return e.serving }

// Rule sets other rules, other trusted proxies, and other fields. Keys of inline rules keep what they have counted.
func (e *Enforcer) Rule(r Ruling) error {
	enforcers := 0
	if own := e.config.InlineStore; own != nil {
		enforcers = max(1, own.Enforcers)
	}
	next, err := newRuling(r, e.metrics, enforcers, e.ruling.Load())
	if err != nil {
		return err
	}
	e.ruling.Store(next)
	return nil
}

// Run serves until the context is done, and then finishes running requests. It ends followers at once: they connect
// again to the enforcer that serves then.
func (e *Enforcer) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	listeners, err := e.listen(ctx)
	if err != nil {
		return err
	}

	begin := e.config.Set.Version()
	close(e.serving)
	server := e.server()
	failed := make(chan error, len(listeners))
	var running sync.WaitGroup
	for _, l := range listeners {
		running.Go(func() { failed <- e.serve(server, l) })
	}

	running.Go(func() { e.watchDelay(ctx, begin) })
	running.Go(func() { e.keepSocket(ctx, server, &running) })

	// The outbox must outlive ctx: requests that are still served may give orders.
	sending, stopSending := context.WithCancel(context.WithoutCancel(ctx))
	running.Go(func() {
		if e.outbox != nil {
			e.outbox.run(sending, *e.config.Sinks)
		}
	})

	running.Go(func() { e.history.run(sending) })
	running.Go(func() { e.rows.run(sending) })
	running.Go(func() {
		if e.outbox != nil {
			e.orderAgain(ctx)
		}
	})

	select {
	case <-ctx.Done():
	case err = <-failed:
	}

	// The order matters: end followers, finish requests, and only then stop sending their orders.
	cancel()
	e.drain(server)
	e.endings.Lock() // forever: End takes nothing more
	stopSending()
	running.Wait()
	if e.shared != nil {
		e.shared.Close()
	}
	return err
}

// drainPatience bounds the time to finish running requests at the end.
const drainPatience = 5 * time.Second

func (e *Enforcer) drain(server *http.Server) {
	// Shutdown waits for running requests, and those of followers would not end by themselves.
	e.end.Do(func() { close(e.ending) })
	ctx, cancel := context.WithTimeout(context.Background(), drainPatience)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		_ = server.Close() // cuts off the remaining requests
	}
}

// A Status is the state of an enforcer for people.
type Status struct {
	Rules     string         `json:"rules"`
	Whole     bool           `json:"whole"`
	Version   string         `json:"version"`
	AsOf      *time.Time     `json:"as_of"` // when the list was last known to be up to date
	Age       string         `json:"age,omitempty"`
	Follows   string         `json:"follows"`
	Followers int64          `json:"followers"`
	Paused    []string       `json:"paused"`                     // rules, * for all
	Guarded   map[string]int `json:"guarded,omitempty"`          // entries that the guards of rules keep from being enforced
	ByShare   map[string]int `json:"guarded_by_share,omitempty"` // of these, those beyond most_share
	Waiting   int64          `json:"waiting"`                    // orders that Kafka does not have yet
	CaughtUp  bool           `json:"caught_up"`
	Trouble   string         `json:"trouble,omitempty"` // what needs a person
}

// Status returns the present state.
func (e *Enforcer) Status() Status {
	now := e.config.Now()
	state := e.config.Set.State()
	s := Status{Rules: e.ruling.Load().Rules.Fingerprint(), Whole: state.Whole, Version: state.Version.String(), Follows: e.config.Follows,
		Followers: e.following.Load(), Paused: append([]string{}, pauses(e.config.Set, now.UnixMilli())...)}
	s.Guarded, s.ByShare = heldBack(e.config.Set, now.UnixMilli())

	if e.outbox != nil {
		s.Waiting = e.outbox.held.Load()
	}
	if state.AsOf > 0 {
		at := time.UnixMilli(state.AsOf).UTC()
		s.AsOf, s.Age = &at, max(0, now.Sub(at)).Round(time.Second).String() // a clock may have gone back since
	}

	s.Trouble = strings.Join(e.troubles(), "; ")
	s.CaughtUp = s.Whole && s.Waiting == 0
	return s
}

// troubles describes what needs a person.
func (e *Enforcer) troubles() (texts []string) {
	if e.config.Unsaved != nil {
		if why := e.config.Unsaved(); why != "" {
			texts = append(texts, "the enforcer cannot save its list, so after a restart it would begin with an older one: "+why)
		}
	}
	if e.storeAway != nil && e.storeAway() {
		texts = append(texts, "the store of inline rules did not answer when it was asked last, so on_error of each rule decides")
	}
	return texts
}

var errUnguarded = errors.New("other machines can reach it without authentication")
