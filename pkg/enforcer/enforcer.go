// Package enforcer serves a blocklist over HTTP: edges ask it whether a request may go on, others follow the list, and
// people give orders.
//
// A check finds out from the headers that an edge sends which request it is about (dialects), who the client is
// (pkg/request), and the request's key of each rule that may refuse it (pkg/rule), and asks the list once. It takes no
// lock and does no I/O but its answer. A refusal says how long it lasts, which limit was broken, and, in a field for logs,
// that it was one. Where there is no list at all, not even an old one, the configuration says whether requests pass.
//
// What always holds. An order is on disk, then in force here, then in the list on disk, then answered; it is sent to Kafka in the order in which
// it was given, and kept until Kafka has it, also when the process ends in between. Nothing changes the list without a
// key of the role write, or the unix socket, whose opener is known by the system. A list is answered whole or not at
// all. No body makes it panic or hold more than a bound.
//
// Bounds: 10,000 connections, half of them of one address that has shown no key, headers of 72 KiB that have to be there
// within 10 s, bodies of 64 KiB, 4,096 followers, 10,000 orders that wait for Kafka, 1,000 entries in an answer of find. Who follows and does not keep up gets a snapshot, and holds up nobody.
//
// Open starts nothing; Run starts a goroutine for each connection and four more, and waits for all of them. An Enforcer
// may be asked by any number of goroutines. It does not keep the list up to date: package blocklist does, from Kafka or
// from another enforcer. The packages beside it speak to edges that do not ask: crowdsec, plain, nftables, haproxy.
package enforcer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/keys"
	"weir/internal/origin"
	"weir/internal/telemetry"
	"weir/pkg/blocklist"
	"weir/pkg/rule"
)

// Config says what an enforcer serves, and to whom.
type Config struct {
	Set    *blocklist.Set // the list; someone else keeps it up to date
	Ruling Ruling

	// Listen is the address for checks and the list; empty listens on none. TLS encrypts it, nil does not.
	Listen string
	TLS    *tls.Config
	// Socket is the unix socket whose opener is admin; empty is none.
	Socket string
	// Keys are the API keys; nil where there are none, and then whoever can connect may read.
	Keys *keys.File
	// Hosts are names, besides localhost, by which this machine is asked where there are no keys.
	Hosts []string

	// Refusal is the status of a refusal at the path that is no edge's own.
	Refusal         int
	LimitHeaders    LimitHeaders
	DenyWithoutList bool

	// Folder is where orders wait that Kafka does not have yet. Sinks are where they go, with the numbers of the topics'
	// partitions. Without sinks no orders are taken, and Follows says where to give them.
	Folder                           string
	Sinks                            *Sinks
	EventsPartitions, HitsPartitions int
	Follows                          string

	// Keep returns when the list as it is in force is on the disk; nil where nobody keeps it. Orders are answered after it.
	Keep func() error

	// Refused is told of each refusal: by which entry, and whose request it was. It must not wait. It may be nil.
	Refused func(entry *blocklist.Entry, client netip.Addr)

	Logger  *slog.Logger
	Metrics prometheus.Registerer
}

// An Enforcer serves a list.
type Enforcer struct {
	config   Config
	plain    *dialect // of checkPath itself
	ruling   atomic.Pointer[ruling]
	metrics  *metrics
	faults   *telemetry.Faults
	mux      *http.ServeMux
	outbox   *outbox // nil where no orders are taken
	commands *commands
	pages    origin.Pages
	finding  chan struct{} // places of those who look through the list
	listing  chan struct{} // places of those who are answered with all of it
	turns    turns
	seen     seen
	delta    delta
	patience time.Duration

	following atomic.Int64 // who follows over HTTP
	ending    chan struct{}
	end       sync.Once
	address   string // once serving is closed
	serving   chan struct{}
}

// Open makes an enforcer and puts in force what was ordered before and waits for Kafka. It starts nothing: Run does.
func Open(c Config) (*Enforcer, error) {
	if err := c.guard(); err != nil {
		return nil, err
	}
	e := &Enforcer{
		config: c, plain: anyEdge(c.Refusal), metrics: newMetrics(c.Metrics, c.Set),
		faults: telemetry.NewFaults(c.Logger), commands: newCommands(c.HitsPartitions), ending: make(chan struct{}), serving: make(chan struct{}),
		patience: usualPatience, pages: c.pages(), finding: make(chan struct{}, maxFinding), listing: make(chan struct{}, maxListing), turns: newTurns(),
	}

	e.Rule(c.Ruling)
	e.mux = e.routes()
	if c.Sinks == nil {
		return e, nil
	}

	outbox, waiting, err := openOutbox(filepath.Join(c.Folder, "orders"), c.Logger)
	if err != nil {
		return nil, err
	}

	e.outbox = outbox
	now := time.Now().UnixMilli()
	for _, p := range waiting {
		orders, _ := p.orders() // which openOutbox has tried
		for _, order := range orders {
			if err := c.Set.Order(order, now); err != nil {
				return nil, fmt.Errorf("putting an order in force that waits for Kafka: %w", err)
			}
		}
	}

	return e, nil
}

// Mount adds paths of others, before Run: other ways to ask for the list. They find out who asks, by Admit or Guard.
func (e *Enforcer) Mount(add func(*http.ServeMux)) { add(e.mux) }

// Rules are those in force, as what holds a list without seeing requests needs them: none of their blocks is carried to
// this machine itself or to a trusted proxy, behind which others are.
func (e *Enforcer) Rules() *rule.Set { return e.ruling.Load().elsewhere }

// Refuses says whether refusals are in force at all.
func (e *Enforcer) Refuses() bool { return !e.ruling.Load().Shadow }

// Serving is closed once it listens.
func (e *Enforcer) Serving() <-chan struct{} { return e.serving }

// Rule puts other rules in force, other trusted proxies, other fields.
func (e *Enforcer) Rule(r Ruling) { e.ruling.Store(newRuling(r, e.metrics)) }

// Run serves until the context is done, then until those are answered who have asked. Those who follow are let go at
// once: they come again, to whoever serves then.
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
	sending, stopSending := context.WithCancel(context.WithoutCancel(ctx))
	running.Go(func() {
		if e.outbox != nil {
			e.outbox.run(sending, *e.config.Sinks)
		}
	})

	running.Go(func() {
		if e.outbox != nil {
			e.orderAgain(ctx)
		}
	})

	select {
	case <-ctx.Done():
	case err = <-failed:
	}

	cancel()
	e.drain(server)
	stopSending()
	running.Wait()
	return err
}

// drainPatience is how long those are served on who have asked when the end comes.
const drainPatience = 5 * time.Second

func (e *Enforcer) drain(server *http.Server) {
	e.end.Do(func() { close(e.ending) })
	ctx, cancel := context.WithTimeout(context.Background(), drainPatience)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		_ = server.Close() // what is still being served is cut off
	}
}

// A Status is how an enforcer stands.
type Status struct {
	Rules     string     `json:"rules"`
	Whole     bool       `json:"whole"`
	Version   string     `json:"version"`
	AsOf      *time.Time `json:"as_of"` // when the list was last known to be up to date
	Age       string     `json:"age,omitempty"`
	Follows   string     `json:"follows"`
	Followers int64      `json:"followers"`
	Paused    []string   `json:"paused"`  // rules, * for all
	Waiting   int64      `json:"waiting"` // orders that Kafka does not have yet
	CaughtUp  bool       `json:"caught_up"`
}

// Status says how it stands.
func (e *Enforcer) Status() Status {
	now := time.Now()
	state := e.config.Set.State()
	s := Status{Rules: e.ruling.Load().Rules.Fingerprint(), Whole: state.Whole, Version: state.Version.String(), Follows: e.config.Follows,
		Followers: e.following.Load(), Paused: append([]string{}, pauses(e.config.Set, now.UnixMilli())...)}

	if e.outbox != nil {
		s.Waiting = e.outbox.held.Load()
	}
	if state.AsOf > 0 {
		at := time.UnixMilli(state.AsOf).UTC()
		s.AsOf, s.Age = &at, now.Sub(at).Round(time.Second).String()
	}

	s.CaughtUp = s.Whole && s.Waiting == 0
	return s
}

var errUnguarded = errors.New("other machines can reach it, and nobody there is asked who they are")
