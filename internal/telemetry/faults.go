package telemetry

import (
	"log/slog"
	"strings"
	"sync"
	"time"
)

const sayEvery = time.Minute

// longestFault is how much of an error is logged. It may have what a server or a sender sent.
const longestFault = 4 << 10

// Faults logs repeated errors: those of each operation at most once a minute, with their number since. Operations are a
// closed set.
type Faults struct {
	logger *slog.Logger
	mu     sync.Mutex
	known  map[string]*repeated
}

type repeated struct {
	since, said time.Time
	text        string // of the last error
	silent      int    // times since it was logged
	lasts       bool
	noted       bool // it was logged since it began
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

	if r.text = Hide(err.Error()); len(r.text) > longestFault {
		r.text = strings.ToValidUTF8(r.text[:longestFault], "") + "…"
	}
	now := time.Now()
	if !r.lasts {
		r.lasts, r.noted, r.since = true, false, now
	}

	r.silent++
	if !r.said.IsZero() && now.Sub(r.said) < sayEvery {
		return
	}

	f.logger.Error(r.text, "operation", operation, "times", r.silent)
	r.said, r.silent, r.noted = now, 0, true
}

// Lasts returns the last error of an operation that has not worked since; empty when there is none.
func (f *Faults) Lasts(operation string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.known[operation]; r != nil && r.lasts {
		return r.text
	}
	return ""
}

// Over logs that an operation works again, if it failed before and that was logged. So an operation that fails and works
// in turn is logged at most once a minute.
func (f *Faults) Over(operation string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.known[operation]
	if r == nil || !r.lasts {
		return
	}
	if r.lasts = false; !r.noted {
		return
	}
	f.logger.Info("works again", "operation", operation, "after", time.Since(r.since).Round(time.Millisecond))
}
