package ordered

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"weir/internal/sleep"
	"weir/pkg/collector/pace"
	"weir/pkg/collector/pipeline"
)

const (
	retryEvery   = 500 * time.Millisecond
	missingEvery = time.Second
	lookAgain    = 100 * time.Millisecond
	unknownAfter = 5 * time.Second // without a page the number of entries that wait is not known
)

// A Config describes a source.
type Config struct {
	Kind  string                // as in the configuration
	Open  func() ([]Log, error) // opens its logs; it connects to nothing yet
	Start pipeline.Start
}

// A source reads its logs.
type source struct {
	in     *pipeline.Intake
	config Config
	kept   *Kept
	logs   []*followed
}

// A followed is a log that is read. Its mutex guards what the status shows.
type followed struct {
	log     Log
	name    string
	missing bool // it was missing when the source began; of the goroutine that reads

	mu      sync.Mutex
	member  *pace.Member
	waiting int64     // entries that are not read
	seen    time.Time // when that was known last
}

// New makes a source.
func New(in *pipeline.Intake, kept *Kept, config Config) (pipeline.Source, error) {
	logs, err := config.Open()
	if err != nil {
		return nil, err
	}
	s := &source{in: in, config: config, kept: kept}
	for _, log := range logs {
		s.logs = append(s.logs, &followed{log: log, name: log.String()})
	}
	return s, nil
}

// Announce makes others wait for each log until it is known whether it has anything to read.
func (s *source) Announce() {
	for _, f := range s.logs {
		f.member = s.in.Join(f.name)
	}
}

// Status is the state of the source.
func (s *source) Status() pipeline.SourceStatus {
	status := s.in.Status(s.config.Kind)
	lag, known := int64(0), true
	for _, f := range s.logs {
		waiting, sure := f.lag(s.in.Now())
		known = known && sure
		lag += waiting
		for i := range status.Logs {
			if log := &status.Logs[i]; log.Log == f.name {
				log.Lag = waiting
			}
		}
	}
	status.CaughtUp = status.CaughtUp && known && lag == 0
	s.in.SetLagRecords(lag, known)
	return status
}

// Run reads until the context is done.
func (s *source) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer s.leave()
	defer running.Wait()
	defer cancel() // also after a panic
	for _, f := range s.logs {
		running.Go(func() { s.follow(ctx, f) })
	}

	for ctx.Err() == nil {
		s.Status() // the gauge
		sleep.For(ctx, time.Second)
	}
	return nil
}

// follow reads a log until the context is done.
func (s *source) follow(ctx context.Context, f *followed) {
	for ctx.Err() == nil {
		r := &reader{source: s, of: f, log: f.log, key: logKey{s.in.Name(), f.name}}
		err := s.in.Outlive(ctx, f.name, func() error { return r.run(ctx) }, func() error { return nil })
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, ErrOther) {
			sleep.For(ctx, lookAgain)
			continue
		}

		f.unknown()
		s.in.Trouble("read", fmt.Errorf("reading %s: %w", f.name, err))
		if errors.Is(err, ErrMissing) {
			f.missing = true
			f.memberNow().Idle(true)
			sleep.For(ctx, missingEvery)
			continue
		}
		sleep.For(ctx, retryEvery)
	}
}

// leave ends the comparisons, and closes the logs.
func (s *source) leave() {
	for _, f := range s.logs {
		f.memberNow().Leave()
		f.log.Close()
	}
}

// lag returns how many entries wait, if that is known.
func (f *followed) lag(now time.Time) (waiting int64, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.waiting, !f.seen.IsZero() && now.Sub(f.seen) < unknownAfter
}

// waits notes how many entries wait.
func (f *followed) waits(waiting int64, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting, f.seen = waiting, now
}

func (f *followed) unknown() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = time.Time{}
}

func (f *followed) memberNow() *pace.Member {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.member
}

// begun makes the log another one for the comparison: nothing is known of it.
func (f *followed) begun(in *pipeline.Intake) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.member
	f.member = in.Join(f.name) // first, so that no other log goes ahead in between
	before.Leave()
}
