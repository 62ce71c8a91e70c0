package ordered

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

	// Grows means that Open may fail for some time, and may return more logs later. It is asked every second.
	Grows bool
}

// A source reads its logs.
type source struct {
	in     *pipeline.Intake
	config Config
	kept   *Kept

	mu    sync.Mutex // guards what follows; only Run adds logs
	logs  []*followed
	fault error // of Open
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
	if err != nil && !config.Grows {
		return nil, err
	}
	s := &source{in: in, config: config, kept: kept, fault: err}
	later := config.Grows && kept.has(in.Name())
	for _, log := range logs {
		s.logs = append(s.logs, &followed{log: log, name: log.String(), missing: later})
	}
	return s, nil
}

// all returns the logs that there are by now.
func (s *source) all() (logs []*followed, fault error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.logs), s.fault
}

// Announce makes others wait for each log until it is known whether it has anything to read.
func (s *source) Announce() {
	logs, _ := s.all()
	for _, f := range logs {
		f.member = s.in.Join(f.name)
	}
}

// Status is the state of the source.
func (s *source) Status() pipeline.SourceStatus {
	logs, fault := s.all()
	lag, known := int64(0), fault == nil
	lags := map[string]int64{}
	for _, f := range logs {
		waiting, sure := f.lag(s.in.Now())
		known = known && sure
		lag += waiting
		lags[f.name] = waiting
	}
	status := s.in.Status(s.config.Kind) // after what waits, as feed shows them
	for i := range status.Logs {
		log := &status.Logs[i]
		log.Lag = lags[log.Log]
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
	logs, _ := s.all()
	for _, f := range logs {
		running.Go(func() { s.follow(ctx, f) })
	}

	for ctx.Err() == nil {
		if s.config.Grows {
			for _, f := range s.grow() {
				running.Go(func() { s.follow(ctx, f) })
			}
		}
		s.Status() // the gauge
		sleep.For(ctx, time.Second)
	}
	return nil
}

// grow returns the logs that were not there before. Each is read from its first entry.
func (s *source) grow() (more []*followed) {
	logs, fault := s.config.Open()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case fault != nil:
		s.in.Trouble("find", fault)
	case s.fault != nil:
		s.in.Mended("find")
	}
	s.fault = fault
	for _, log := range logs {
		name := log.String()
		if slices.ContainsFunc(s.logs, func(f *followed) bool { return f.name == name }) {
			log.Close()
			continue
		}
		f := &followed{log: log, name: name, missing: true, member: s.in.Join(name)}
		s.logs, more = append(s.logs, f), append(more, f)
	}
	return more
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
		s.in.TroubleOf(f.name, "read", fmt.Errorf("reading %s: %w", f.name, err))
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
	logs, _ := s.all()
	for _, f := range logs {
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
