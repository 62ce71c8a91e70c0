package telemetry

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Register registers a metric, or returns the existing one when the same part was already made in this process. Without
// a registry the metric belongs only to the caller.
func Register[C prometheus.Collector](r prometheus.Registerer, metric C) C {
	if r == nil {
		return metric
	}
	err := r.Register(metric)
	if before := (prometheus.AlreadyRegisteredError{}); errors.As(err, &before) {
		return before.ExistingCollector.(C)
	}
	if err != nil {
		panic(err) // another metric has our name: a bug in the program
	}
	return metric
}
