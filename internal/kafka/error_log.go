package kafka

import (
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/topic"
)

// sayEvery is how often a lasting error is logged.
const logEvery = time.Minute

// errorLog counts and logs errors; it logs repeated ones at most once a minute, with their count.
type errorLog struct {
	logger *slog.Logger
	total  *prometheus.CounterVec
	now    func() time.Time

	mu    sync.Mutex
	known map[errorKey]*repeated // bounded: operations and kinds are closed sets
}

type errorKey struct {
	operation string
	kind      error
}

type repeated struct {
	logged time.Time
	silent int // times since the last log line
}

func newErrorLog(logger *slog.Logger, registerer prometheus.Registerer) *errorLog {
	return &errorLog{logger: logger, total: newFaultsTotal(registerer), now: time.Now, known: map[errorKey]*repeated{}}
}

// note counts an error of an operation (produce, fetch, group, commit) and logs it unless it was just logged.
func (f *errorLog) note(operation string, err error) {
	kind := topic.KindOf(err)
	f.total.WithLabelValues(operation, kind.Error()).Inc()
	if times, due := f.due(errorKey{operation, kind}); due {
		f.logger.Warn("Kafka: "+err.Error(), "operation", operation, "times", times)
	}
}

// over logs that an operation works again, if it failed before.
func (f *errorLog) over(operation, what string, since time.Time) {
	if _, due := f.due(errorKey{operation, nil}); due {
		f.logger.Info("Kafka: "+what+" again", "operation", operation, "after", f.now().Sub(since).Round(time.Millisecond))
	}
}

func (f *errorLog) due(key errorKey) (times int, due bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.known[key]
	if r == nil {
		r = &repeated{}
		f.known[key] = r
	}

	r.silent++
	now := f.now()
	if now.Sub(r.logged) < logEvery {
		return 0, false
	}

	times = r.silent
	r.logged, r.silent = now, 0
	return times, true
}
