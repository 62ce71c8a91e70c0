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

	// List asks a server for the logs, in place of Open: first when the source runs, and then every second. It may fail
	// for some time, and may return more logs later; those that are known already are closed. The logs of its first answer
	// begin where Start says. One that has ended, or went while no collector ran, is forgotten once it is not returned.
	List func(ctx context.Context) ([]Log, error)
}

var errUnlisted = errors.New("the server was not asked for its logs yet")

// A source reads its logs.
type source struct {
	in     *pipeline.Intake
	config Config
	kept   *Kept

	mu    sync.Mutex // guards what follows; only Run adds logs
	logs  []*followed
	fault error // of Open or List

	gone  map[logKey]int // of logs that the journal has and the server has not: how many lists in a row
	first *pace.Member   // in place of logs that are not listed yet; nil once they are
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
	ended   bool      // nothing follows
}

// New makes a source.
func New(in *pipeline.Intake, kept *Kept, config Config) (pipeline.Source, error) {
	if config.List != nil {
		return &source{in: in, config: config, kept: kept, fault: errUnlisted}, nil
	}
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
	if s.config.List != nil {
		s.first = s.in.Join(s.in.Name())
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
		if s.config.Grows || s.config.List != nil {
			for _, f := range s.grow(ctx) {
				running.Go(func() { s.follow(ctx, f) })
			}
		}
		s.Status() // the gauge
		sleep.For(ctx, time.Second)
	}
	return nil
}

// grow returns the logs that were not there before. Each is read from its first entry, unless it is of the first list.
func (s *source) grow(ctx context.Context) (more []*followed) {
	logs, fault := s.open(ctx)
	if s.config.List != nil && fault == nil {
		s.forget(ctx, logs)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case fault != nil && ctx.Err() == nil:
		s.in.Trouble("find", fault)
	case s.fault != nil:
		s.in.Mended("find")
	}
	later := s.config.List == nil || s.first == nil || s.kept.has(s.in.Name())
	s.fault = fault
	known := make(map[string]*followed, len(s.logs))
	for _, f := range s.logs {
		known[f.name] = f
	}
	for _, log := range logs {
		name := log.String()
		switch was := known[name]; {
		case was != nil && !was.isBefore(log):
			log.Close()
			continue
		case was != nil:
			s.logs = slices.DeleteFunc(s.logs, func(f *followed) bool { return f == was })
		}
		f := &followed{log: log, name: name, missing: later, member: s.in.Join(name)}
		known[name], s.logs, more = f, append(s.logs, f), append(more, f)
	}
	if s.first != nil {
		s.first.Idle(fault != nil)
		if fault == nil {
			s.first.Leave()
			s.first = nil
		}
	}
	return more
}

// forget forgets logs that have ended and that the server does not have any more.
func (s *source) forget(ctx context.Context, listed []Log) {
	there := make(map[string]bool, len(listed))
	for _, log := range listed {
		there[log.String()] = true
	}
	logs, _ := s.all()
	for _, f := range logs {
		if !f.hasEnded() || there[f.name] {
			continue
		}
		s.kept.drop(ctx, logKey{s.in.Name(), f.name})
		s.in.Logger().Info("a log that has ended is forgotten", "log", f.name)
		s.mu.Lock()
		s.logs = slices.DeleteFunc(s.logs, func(other *followed) bool { return other == f })
		s.mu.Unlock()
	}
	s.forgetUnread(ctx, listed)
}

const goneLists = 10 // in a row without a log, until it is taken for gone

// forgetUnread forgets logs that are in the journal and that the server does not have any more, because they went while no
// collector ran. A log with an identity never comes back: one of its name has another identity, and is another log.
func (s *source) forgetUnread(ctx context.Context, listed []Log) {
	names := map[string]string{}
	for _, log := range listed {
		if of, ok := log.(Identified); ok && of.Identity() != "" {
			names[log.String()] = of.Identity()
		}
	}
	logs, _ := s.all()
	gone := map[logKey]int{}
	for _, key := range s.kept.gone(s.in.Name(), names) {
		if slices.ContainsFunc(logs, func(f *followed) bool { return f.name == key.log }) {
			continue
		}
		if gone[key] = s.gone[key] + 1; gone[key] < goneLists {
			continue
		}
		if s.kept.drop(ctx, key); s.kept.find(key) != "" {
			continue
		}
		s.in.Logger().Info("a log that the server does not have any more is forgotten", "log", key.log)
	}
	s.gone = gone
}

func (s *source) open(ctx context.Context) ([]Log, error) {
	if s.config.List != nil {
		return s.config.List(ctx)
	}
	return s.config.Open()
}

// follow reads a log until the context is done.
func (s *source) follow(ctx context.Context, f *followed) {
	for ctx.Err() == nil {
		r := &reader{source: s, of: f, log: f.log, key: logKey{s.in.Name(), f.name}}
		err := s.in.Outlive(ctx, f.name, func() error { return r.run(ctx) }, func() error { return nil })
		if ctx.Err() != nil {
			return
		}
		switch {
		case errors.Is(err, ErrOther):
			sleep.For(ctx, lookAgain)
			continue
		case errors.Is(err, ErrEnded):
			s.end(f)
			return
		}

		f.unknown()
		if errors.Is(err, ErrLater) {
			f.memberNow().Idle(true)
			sleep.For(ctx, lookAgain)
			continue
		}
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

// end notes that a log has ended.
func (s *source) end(f *followed) {
	s.in.MendedOf(f.name, "read")
	f.memberNow().Leave()
	f.log.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
}

// leave ends the comparisons, and closes the logs.
func (s *source) leave() {
	logs, _ := s.all()
	for _, f := range logs {
		if !f.hasEnded() {
			f.memberNow().Leave()
			f.log.Close()
		}
	}
	if s.first != nil {
		s.first.Leave()
	}
}

// isBefore reports whether a log has ended, and the one of its name that is listed now is another one.
func (f *followed) isBefore(listed Log) bool {
	now, ok := listed.(Identified)
	was, _ := f.log.(Identified)
	return ok && f.hasEnded() && now.Identity() != was.Identity()
}

func (f *followed) hasEnded() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended
}

// lag returns how many entries wait, if that is known.
func (f *followed) lag(now time.Time) (waiting int64, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return 0, true
	}
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
