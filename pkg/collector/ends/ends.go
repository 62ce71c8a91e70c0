// Package ends reports to enforcers which requests have ended, so that these free their places at limits at once. The
// collector reads that in the edges' logs: a line has the id of the attempt that its request made (rules with ends: log).
//
// Put never waits and may be called by any goroutine. Each enforcer has a queue of its own, so that one that does not
// answer holds up no other. It is asked again, with the same attempts, until it answers: to end an attempt twice changes
// nothing. A queue has 16,384 attempts of 16 bytes; when it is full, further ones are lost and counted as such. Attempts
// are also lost with the process. The places of lost ones are free when their leases end.
//
// Run has a goroutine for each enforcer. It returns when all have ended, with what is queued sent if that takes no longer
// than a second; the log says how many are lost.
package ends

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/sleep"
	"weir/internal/telemetry"
	"weir/pkg/inline"
)

const (
	mostQueued    = 16384
	mostTogether  = 256 // in one call
	again         = time.Second
	closePatience = time.Second
)

// A Target is an enforcer.
type Target struct {
	Name string // for people
	// End ends attempts. After an error the same ones are given again, and some of them may have ended.
	End func(ctx context.Context, ids []inline.ID) error
}

// A Sender gives the ids of attempts to enforcers.
type Sender struct {
	queues []*queue
	faults *telemetry.Faults
	sent   prometheus.Counter
	lost   prometheus.Counter
	logger *slog.Logger
}

// A queue is what waits for one enforcer.
type queue struct {
	Target
	wake chan struct{}

	mu  sync.Mutex
	ids []inline.ID
}

// New makes a Sender. The logger may be nil.
func New(to []Target, logger *slog.Logger, metrics prometheus.Registerer) *Sender {
	logger = cmp.Or(logger, slog.New(slog.DiscardHandler))
	s := &Sender{faults: telemetry.NewFaults(logger), logger: logger}
	s.sent = telemetry.Register(metrics, prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_collector_ends_total",
		Help: "Ends of requests at limits at once that enforcers were given, once for each enforcer."}))
	s.lost = telemetry.Register(metrics, prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_collector_ends_lost_total",
		Help: "Ends of requests that found no room in the queue to an enforcer: their places are free when their leases end."}))
	for _, one := range to {
		s.queues = append(s.queues, &queue{Target: one, wake: make(chan struct{}, 1)})
	}
	return s
}

// Put queues attempts whose requests have ended. It keeps a copy.
func (s *Sender) Put(ids []inline.ID) {
	for _, q := range s.queues {
		if lost := q.put(ids); lost > 0 {
			s.lost.Add(float64(lost))
			s.faults.Note("queue", errors.New("requests count until their leases end: the queue of ended ones to "+q.Name+" is full"))
		}
	}
}

func (q *queue) put(ids []inline.ID) (lost int) {
	q.mu.Lock()
	fit := min(len(ids), mostQueued-len(q.ids))
	q.ids = append(q.ids, ids[:fit]...)
	q.mu.Unlock()
	sleep.Wake(q.wake)
	return len(ids) - fit
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.ids)
}

// take returns the oldest attempts of the queue.
func (q *queue) take() []inline.ID {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.ids), mostTogether)
	taken := append([]inline.ID(nil), q.ids[:n]...)
	q.ids = q.ids[:copy(q.ids, q.ids[n:])]
	return taken
}

// Run sends until the context is done.
func (s *Sender) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, q := range s.queues {
		running.Go(func() {
			for ctx.Err() == nil {
				s.send(ctx, q)
				select {
				case <-q.wake:
				case <-ctx.Done():
				}
			}
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), closePatience)
			defer cancel()
			s.send(last, q)

			if lost := q.len(); lost > 0 {
				s.logger.Warn("ends of requests are lost; these count until their leases end", "enforcer", q.Name, "number", lost)
			}
		})
	}
	running.Wait()
}

// send sends until the queue is empty or the context is done.
func (s *Sender) send(ctx context.Context, q *queue) {
	for ids := q.take(); len(ids) > 0; ids = q.take() {
		for err := q.End(ctx, ids); err != nil; err = q.End(ctx, ids) {
			if ctx.Err() != nil {
				q.put(ids)
				return
			}
			s.faults.Note(q.Name, fmt.Errorf("requests that have ended still count at %s: %w", q.Name, err))
			sleep.For(ctx, again)
		}
		s.faults.Over(q.Name)
		s.sent.Add(float64(len(ids)))
	}
}
