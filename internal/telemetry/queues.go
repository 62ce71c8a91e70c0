package telemetry

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// A Queue is what the metrics say of one queue. Depth and capacity have one unit, which is the queue's own.
type Queue struct {
	Depth, Capacity prometheus.Gauge
	Dropped         prometheus.Counter
}

// NewQueue has a registry, or nil, tell of a queue. Names are a closed set, and one process has each once.
func NewQueue(r prometheus.Registerer, name string) Queue {
	gauge := func(metric, help string) prometheus.Gauge {
		return known(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: metric, Help: help}, []string{"queue"})).WithLabelValues(name)
	}
	return Queue{
		Depth:    gauge("weir_queue_depth", "What waits in a queue."),
		Capacity: gauge("weir_queue_capacity", "How much may wait in a queue, in the unit of its depth."),
		Dropped: known(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_queue_dropped_total", Help: "What found no room in a queue and was dropped."},
			[]string{"queue"})).WithLabelValues(name),
	}
}

// known registers a metric, or gives the one that is registered already.
func known[C prometheus.Collector](r prometheus.Registerer, metric C) C {
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
