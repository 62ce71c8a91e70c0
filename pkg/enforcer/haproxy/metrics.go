package haproxy

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/telemetry"
)

// metrics are the metrics of an Agent.
type metrics struct {
	entries               prometheus.Gauge
	restarts, differences prometheus.Counter
	failures              *prometheus.CounterVec
}

// kinds are the kinds of errors.
var kinds = []string{"unreachable", "refused", "file"}

func newMetrics(r prometheus.Registerer) *metrics {
	repairs := telemetry.Register(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_enforcer_haproxy_repairs_total",
		Help: "Complete lists sent to HAProxy, by reason."}, []string{"reason"}))
	m := &metrics{
		entries: telemetry.Register(r, prometheus.NewGauge(prometheus.GaugeOpts{Name: "weir_enforcer_haproxy_entries",
			Help: "Prefixes in HAProxy's map when it last answered."})),
		restarts: repairs.WithLabelValues("restart"), differences: repairs.WithLabelValues("difference"),
		failures: telemetry.Register(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_enforcer_haproxy_errors_total",
			Help: "Failed operations, by kind."}, []string{"kind"})),
	}

	for _, kind := range kinds {
		m.failures.WithLabelValues(kind)
	}
	return m
}

func (m *metrics) countError(operation string, err error) {
	kind := "refused"
	switch {
	case operation == fileOperation:
		kind = "file"
	case errors.Is(err, errUnreachable):
		kind = "unreachable"
	}
	m.failures.WithLabelValues(kind).Inc()
}
