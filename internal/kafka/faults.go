package kafka

import (
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// sayEvery is how often a lasting error is logged.
const sayEvery = time.Minute

// faults counts and logs errors; it logs repeated ones at most once a minute, with their count.
type faults struct {
	logger *slog.Logger
	total  *prometheus.CounterVec
	now    func() time.Time

	mu    sync.Mutex
	known map[faultKey]*repeated // bounded: operations and kinds are closed sets
}

type faultKey struct {
	operation string
	kind      error
}

type repeated struct {
	said   time.Time
	silent int // times since the last log line
}

func newFaults(logger *slog.Logger, registerer prometheus.Registerer) *faults {
	return &faults{logger: logger, total: newFaultsTotal(registerer), now: time.Now, known: map[faultKey]*repeated{}}
}

// note counts an error of an operation (produce, fetch, group, commit) and logs it unless it was just logged.
func (f *faults) note(operation string, err error) {
	kind := kindOf(err)
	f.total.WithLabelValues(operation, kind.Error()).Inc()
	if times, due := f.due(faultKey{operation, kind}); due {
		f.logger.Warn("Kafka: "+err.Error(), "operation", operation, "times", times)
	}
}

// over logs that an operation works again, if it failed before.
func (f *faults) over(operation, what string, since time.Time) {
	if _, due := f.due(faultKey{operation, nil}); due {
		f.logger.Info("Kafka: "+what+" again", "operation", operation, "after", f.now().Sub(since).Round(time.Millisecond))
	}
}

func (f *faults) due(key faultKey) (times int, due bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.known[key]
	if r == nil {
		r = &repeated{}
		f.known[key] = r
	}

	r.silent++
	now := f.now()
	if now.Sub(r.said) < sayEvery {
		return 0, false
	}

	times = r.silent
	r.said, r.silent = now, 0
	return times, true
}
