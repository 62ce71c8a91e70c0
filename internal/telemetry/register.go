package telemetry

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Register registers a metric, or takes the one that is there already, where the same part was made before in the
// process. Without a registry it is nobody's but the caller's.
func Register[C prometheus.Collector](r prometheus.Registerer, metric C) C {
	if r == nil {
		return metric
	}
	err := r.Register(metric)
	if before := (prometheus.AlreadyRegisteredError{}); errors.As(err, &before) {
		return before.ExistingCollector.(C)
	}
	if err != nil {
		panic(err) // another metric has our name: a mistake in the program
	}
	return metric
}
