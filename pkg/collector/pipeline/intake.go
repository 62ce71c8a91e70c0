package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/telemetry"
	"weir/pkg/collector/pace"
	"weir/pkg/request"
)

// An Intake is the state that the streams of one source share.
type Intake struct {
	pipeline *Pipeline
	config   IntakeConfig
	logger   *slog.Logger
	metrics  *sourceMetrics
	faults   *telemetry.Faults
	ahead    int64 // ms
	streams  streams
	warned   warnings
	stopped  stoppedParts
	seen     *seenValues                        // nil without dedupe
	early    struct{ count, last atomic.Int64 } // requests ahead of the clock, and when the last one came, Unix ms

	choice   atomic.Pointer[request.Choice]
	troubles troubles
}

// An IntakeConfig describes how the records of a source are read.
type IntakeConfig struct {
	Name     string // label of metrics; no two sources have the same
	Envelope string // see request.NewDecoder; "auto" finds out from the first records
	Format   string // likewise
	Options  request.Options
	// Only reports whether a record is to be counted; it may ask for the fields of the envelope. nil selects all
	// records.
	Only func(field func(name string) (string, bool)) bool
	// Refusals counts the refused attempts of inline rules whose blocks need them, and nothing else.
	Refusals bool
	Outer    []string      // fields whose values stand next to the records: see Stream.SetOuter
	Dedupe   Dedupe        // without By all requests count
	Late     time.Duration // how far the source may be ahead of the others; 0 is that of the pipeline
}

// NewIntake makes the intake of a source.
func (p *Pipeline) NewIntake(config IntakeConfig) (*Intake, error) {
	logger := p.config.Logger.With("source", config.Name)
	in := &Intake{
		pipeline: p, config: config, logger: logger, metrics: p.metrics.of(config.Name), faults: telemetry.NewFaults(logger),
		ahead: p.config.Ahead.Milliseconds(),
	}
	if config.Dedupe.By != "" {
		in.seen = newSeenValues(config.Dedupe, p.metrics, config.Name)
	}
	if in.unknown() {
		return in, nil
	}

	_, err := request.NewDecoder(config.Envelope, config.Format, config.Options)
	if err != nil {
		return nil, fmt.Errorf("source %s: %w", config.Name, err)
	}

	in.choice.Store(&request.Choice{Envelope: config.Envelope, Format: config.Format})
	return in, nil
}

// Name is the name of the source.
func (in *Intake) Name() string { return in.config.Name }

// Logger is the logger of the source.
func (in *Intake) Logger() *slog.Logger { return in.logger }

// Now is the time of the collector's clock.
func (in *Intake) Now() time.Time { return in.pipeline.Now() }

// Batch is how long a live record may wait for others, so that they are sent together.
func (in *Intake) Batch() time.Duration { return in.pipeline.config.Batch }

// NextBeat is the time until live records are sent together again; 0 when they are not.
func (in *Intake) NextBeat() time.Duration { return in.pipeline.beat.next(in.Now()) }

// Rules returns the fingerprint of the present rules, and whether those with another fingerprint are known.
func (in *Intake) Rules(other string) (ours string, known bool) {
	return in.pipeline.Fingerprint(), in.pipeline.rulingOf(other) != nil
}

// TooOld reports whether a cut that was begun at a time is too old to be sent again.
func (in *Intake) TooOld(clock int64) (age time.Duration, is bool) { return in.pipeline.TooOld(clock) }

// Join makes the others wait for a log that has something to read, until that has got as far.
func (in *Intake) Join(log string) *pace.Member { return in.pipeline.config.Pace.Join(log, in.late()) }

// Share is Join for a log that other processes read, too.
func (in *Intake) Share(log string) *pace.Member {
	return in.pipeline.config.Pace.Share(log, in.late())
}

// Doubts returns a channel that is closed when a log waits for the confirmation that shared ones have nothing to read.
func (in *Intake) Doubts() <-chan struct{} { return in.pipeline.config.Pace.Doubts() }

// AnyWaits reports whether any log of any source waits for others.
func (in *Intake) AnyWaits() bool {
	_, waiting := in.pipeline.config.Pace.Count()
	return waiting > 0
}

// late is the lateness of the source.
func (in *Intake) late() time.Duration {
	return cmp.Or(in.config.Late, in.pipeline.config.Late)
}

// Trouble keeps an error for the status, and logs it at most once a minute. A later one of the operation replaces it.
func (in *Intake) Trouble(operation string, err error) { in.TroubleOf("", operation, err) }

// TroubleOf is Trouble with one log of the source.
func (in *Intake) TroubleOf(log, operation string, err error) {
	in.troubles.note(trouble{log: log, operation: operation, what: err.Error(), at: in.Now()})
	in.faults.Note(operation, err)
}

// Incident is Trouble that nothing mends, such as a connection that broke: the status shows it for an hour.
func (in *Intake) Incident(operation string, err error) {
	in.troubles.note(trouble{operation: operation, what: err.Error(), at: in.Now(), passes: true})
	in.faults.Note(operation, err)
}

// Mended clears the error of an operation from the status.
func (in *Intake) Mended(operation string) { in.MendedOf("", operation) }

// MendedOf clears the errors of operations on one log from the status.
func (in *Intake) MendedOf(log string, operations ...string) {
	for _, operation := range operations {
		if in.troubles.over(log, operation) {
			in.faults.Over(operation)
		}
	}
}

// Fault keeps an error of reading a log for the status that was logged already; nil clears it.
func (in *Intake) Fault(log string, err error) {
	if err == nil {
		in.troubles.over(log, "read")
		return
	}
	in.troubles.note(trouble{log: log, operation: "read", what: err.Error(), at: in.Now()})
}

// Registry is where metrics of the source are registered; nil is nowhere.
func (in *Intake) Registry() prometheus.Registerer { return in.pipeline.config.Metrics }

// Uncounted counts requests that no stream has.
func (in *Intake) Uncounted(why Reason, n int64) {
	in.metrics.uncounted[why].Add(float64(n))
	if why == ReasonLost {
		in.metrics.totals.lost.Add(n)
		return
	}
	in.metrics.totals.requests.Add(n)
	in.metrics.totals.uncounted[why].Add(n)
}

// Redelivered counts entries that a server has given again.
func (in *Intake) Redelivered(n int64) { in.metrics.totals.redelivered.Add(n) }

// SetLagBytes sets the gauge of the bytes of files that wait to be read.
func (in *Intake) SetLagBytes(n int64) {
	in.pipeline.metrics.lagBytes.WithLabelValues(in.config.Name).Set(float64(n))
}

// SetLagRecords sets the gauge of the records of topics that wait to be read, or removes it while that is not known.
func (in *Intake) SetLagRecords(n int64, known bool) {
	if !known {
		in.pipeline.metrics.lagCount.DeleteLabelValues(in.config.Name)
		return
	}
	in.pipeline.metrics.lagCount.WithLabelValues(in.config.Name).Set(float64(n))
}

// Status is the status of the source. It sets no gauge.
func (in *Intake) Status(kind string) SourceStatus {
	status := SourceStatus{Name: in.config.Name, Kind: kind, Logs: in.streams.status(), CaughtUp: true}
	if choice := in.choice.Load(); choice != nil {
		status.Format = choice.String()
	}

	status.Requests, status.Uncounted = in.metrics.totals.requests.Load(), in.metrics.totals.uncountedByWord()
	status.Lost, status.Redelivered = in.metrics.totals.lost.Load(), in.metrics.totals.redelivered.Load()
	if n := in.early.count.Load(); n > 0 {
		status.Ahead = &Ahead{n, time.UnixMilli(in.early.last.Load()).UTC()}
	}
	status.Seen = in.seen.status()
	if what := in.stopped.first(); what != "" {
		status.AddError(what)
		status.CaughtUp = false
	}
	for _, what := range in.troubles.texts(in.Now()) {
		status.AddError(what)
	}

	for i := range status.Logs {
		status.CaughtUp = status.CaughtUp && status.Logs[i].InFlight == 0 && status.Logs[i].Lag == 0
	}
	return status
}

// streams are the present streams of a source, by their status.
type streams struct {
	mu  sync.Mutex
	all []*shownStream
}

// A shownStream is a stream whose status is shown until it is removed.
type shownStream struct{ status func() LogStatus }

func (all *streams) add(status func() LogStatus) *shownStream {
	all.mu.Lock()
	defer all.mu.Unlock()
	one := &shownStream{status}
	all.all = append(all.all, one)
	return one
}

func (all *streams) remove(one *shownStream) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.all = slices.DeleteFunc(all.all, func(other *shownStream) bool { return other == one })
}

func (all *streams) status() []LogStatus {
	all.mu.Lock()
	defer all.mu.Unlock()
	shown := []LogStatus{}
	for _, one := range all.all {
		shown = append(shown, one.status())
	}
	return shown
}

// A Source brings the records of its logs, each to a stream of its own.
//
// Announce is called before any source runs: a source that has yet to find its logs makes the others wait until it has,
// because its requests may be older. Run reads until the context is done and the streams are drained, and then returns nil. It returns an error only for
// a problem that a retry cannot solve. It reports a temporary problem (a file that may not be read, an unreachable
// broker) through Intake.Trouble, which keeps it for the status and logs it at most once a minute, and tries again.
// Status may be called at any time, also before run.
type Source interface {
	Announce()
	Run(ctx context.Context) error
	Status() SourceStatus
}

// stoppedParts are the parts of a source that have panicked and have not started again, with a description of each.
type stoppedParts struct {
	mu    sync.Mutex
	parts map[string]string
}

func (s *stoppedParts) add(name, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parts == nil {
		s.parts = map[string]string{}
	}
	s.parts[name] = what
}

func (s *stoppedParts) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.parts, name)
}

// first returns the description of one of them; empty when there is none.
func (s *stoppedParts) first() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.parts)) {
		return s.parts[name]
	}
	return ""
}

// unknown reports whether the form of the records has to be found out.
func (in *Intake) unknown() bool { return in.config.Envelope == "auto" || in.config.Format == "auto" }

// warnings note which warnings a source has logged: each only once.
type warnings struct{ one, private, unread, clock, lacking, values atomic.Bool }
