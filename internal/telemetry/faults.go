package telemetry

import (
	"log/slog"
	"sync"
	"time"
)

const sayEvery = time.Minute

// Faults logs repeated errors: those of each operation at most once a minute, with their number since. Operations are a
// closed set.
type Faults struct {
	logger *slog.Logger
	mu     sync.Mutex
	known  map[string]*repeated
}

type repeated struct {
	since, said time.Time
	silent      int // times since it was logged
	lasts       bool
}

// NewFaults makes one that logs to the logger.
func NewFaults(logger *slog.Logger) *Faults {
	return &Faults{logger: logger, known: map[string]*repeated{}}
}

// Note logs an error, or only counts it when the operation's last one was logged less than a minute ago.
func (f *Faults) Note(operation string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.known[operation]
	if r == nil {
		r = &repeated{}
		f.known[operation] = r
	}

	now := time.Now()
	if !r.lasts {
		r.lasts, r.since = true, now
	}

	r.silent++
	if !r.said.IsZero() && now.Sub(r.said) < sayEvery {
		return
	}

	f.logger.Error(err.Error(), "operation", operation, "times", r.silent)
	r.said, r.silent = now, 0
}

// Over logs that an operation works again, if it failed before.
func (f *Faults) Over(operation string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.known[operation]
	if r == nil || !r.lasts {
		return
	}
	r.lasts = false
	f.logger.Info("works again", "operation", operation, "after", time.Since(r.since).Round(time.Millisecond))
}
