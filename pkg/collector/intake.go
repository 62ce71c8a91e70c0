package collector

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/telemetry"
	"weir/pkg/hit"
	"weir/pkg/request"
)

// An intake is the state that the streams of one source share.
type intake struct {
	collector *Collector
	config    SourceConfig
	logger    *slog.Logger
	metrics   *sourceMetrics
	faults    *telemetry.Faults
	ahead     int64 // ms
	streams   streams
	warned    warnings
	stopped   stoppedParts
	early     struct{ count, last atomic.Int64 } // requests ahead of the clock, and when the last one came, Unix ms

	choice    atomic.Pointer[request.Choice]
	lastError atomic.Pointer[lastError]
}

// A lastError is the last problem of a source.
type lastError struct {
	what string
	at   time.Time
}

func (c *Collector) newIntake(config SourceConfig) (*intake, error) {
	logger := c.config.Logger.With("source", config.Name)
	in := &intake{
		collector: c, config: config, logger: logger, metrics: c.metrics.of(config.Name), faults: telemetry.NewFaults(logger),
		ahead: c.config.Ahead.Milliseconds(),
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

// late is the lateness of the source.
func (in *intake) late() time.Duration {
	if in.config.Late > 0 {
		return in.config.Late
	}
	return in.collector.config.Late
}

// trouble keeps an error for the status, and logs it at most once a minute.
func (in *intake) trouble(operation string, err error) {
	in.lastError.Store(&lastError{err.Error(), time.Now()})
	in.faults.Note(operation, err)
}

// mended clears the error of the status.
func (in *intake) mended(operation string) {
	if in.lastError.Swap(nil) != nil {
		in.faults.Over(operation)
	}
}

// status is the status of the source, without its lags.
func (in *intake) status(kind string) SourceStatus {
	status := SourceStatus{Name: in.config.Name, Kind: kind, Logs: in.streams.status(), CaughtUp: true}
	if choice := in.choice.Load(); choice != nil {
		status.Format = choice.String()
	}

	status.Requests, status.Uncounted = in.metrics.totals.requests.Load(), in.metrics.totals.uncountedByWord()
	if n := in.early.count.Load(); n > 0 {
		status.Ahead = &Ahead{n, time.UnixMilli(in.early.last.Load()).UTC()}
	}
	if fault := in.lastError.Load(); fault != nil {
		status.Error = fmt.Sprintf("%s (%s)", fault.what, fault.at.UTC().Format(time.RFC3339))
	}
	if what := in.stopped.first(); what != "" {
		status.Error, status.CaughtUp = what, false
	}

	for i := range status.Logs {
		status.CaughtUp = status.CaughtUp && status.Logs[i].InFlight == 0 && status.Logs[i].Lag == 0
	}
	return status
}

// streams are the present streams of a source.
type streams struct {
	mu  sync.Mutex
	all []*stream
}

func (all *streams) add(s *stream) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.all = append(all.all, s)
}

func (all *streams) remove(s *stream) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for i := range all.all {
		if all.all[i] == s {
			all.all = append(all.all[:i], all.all[i+1:]...)
			return
		}
	}
}

func (all *streams) status() []LogStatus {
	all.mu.Lock()
	defer all.mu.Unlock()
	shown := []LogStatus{}
	for _, s := range all.all {
		log := *s.shown.Load()
		log.Lag, log.Holding = s.lag.Load(), s.member != nil && s.member.Held()
		shown = append(shown, log)
	}
	return shown
}

// writers are spare ones, so that only streams with hits keep any.
type writers struct {
	mu    sync.Mutex
	spare []*hit.Writer
}

const spareWriters = 64

func (w *writers) get() *hit.Writer {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.spare); n > 0 {
		writer := w.spare[n-1]
		w.spare = w.spare[:n-1]
		return writer
	}
	return hit.NewWriter()
}

func (w *writers) put(writer *hit.Writer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.spare) < spareWriters {
		w.spare = append(w.spare, writer)
	}
}
