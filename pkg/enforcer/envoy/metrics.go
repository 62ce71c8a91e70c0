package envoy

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	"weir/internal/telemetry"
)

// metrics count calls.
type metrics struct {
	calls *prometheus.CounterVec
	took  *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	return &metrics{
		calls: telemetry.Register(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_enforcer_grpc_calls_total",
			Help: "Calls over gRPC, by service and by the code of the answer."}, []string{"service", "code"})),
		took: telemetry.Register(r, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "weir_enforcer_grpc_seconds",
			Help:    "Time from the beginning of a call over gRPC until its answer was made, by service.",
			Buckets: []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1}}, []string{"service"})),
	}
}

// otherCode stands for codes that only few calls have: those that end in time, or are given up.
const otherCode = "other"

// doorCounts are the metrics of one service, by code.
type doorCounts struct {
	calls map[codes.Code]prometheus.Counter
	other prometheus.Counter
	took  prometheus.Observer
}

func (m *metrics) door(name string) *doorCounts {
	d := &doorCounts{calls: map[codes.Code]prometheus.Counter{}, other: m.calls.WithLabelValues(name, otherCode), took: m.took.WithLabelValues(name)}
	for _, code := range []codes.Code{codes.OK, codes.InvalidArgument, codes.Unauthenticated, codes.PermissionDenied, codes.Unavailable} {
		d.calls[code] = m.calls.WithLabelValues(name, code.String())
	}
	return d
}

func (d *doorCounts) note(code codes.Code, took time.Duration) {
	if counter := d.calls[code]; counter != nil {
		counter.Inc()
	} else {
		d.other.Inc()
	}
	d.took.Observe(took.Seconds())
}
