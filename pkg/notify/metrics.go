package notify

import (
	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/telemetry"
)

// metrics are those of one receiver.
type metrics struct {
	sent, failed, retried, dropped, unreadable prometheus.Counter
	failing, waiting                           prometheus.Gauge
}

func newMetrics(r prometheus.Registerer, receiver string) *metrics {
	of := prometheus.Labels{"receiver": receiver}
	counter := func(name, help string) prometheus.Counter {
		return telemetry.Register(r, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: of}))
	}
	gauge := func(name, help string) prometheus.Gauge {
		return telemetry.Register(r, prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: of}))
	}

	gauge("weir_notify_waiting_capacity", "Events that a partition of the receiver keeps in memory at most.").Set(maxKept)
	return &metrics{
		sent:       counter("weir_notify_sent_total", "Messages that the receiver has accepted."),
		failed:     counter("weir_notify_failed_total", "Attempts to send that failed."),
		retried:    counter("weir_notify_retried_total", "Attempts that were repeated."),
		dropped:    counter("weir_notify_dropped_total", "Messages that the receiver refused, or that failed for too long."),
		unreadable: counter("weir_notify_unreadable_total", "Records of the topic that are not events."),
		failing:    gauge("weir_notify_failing", "1 when the last attempt to send failed."),
		waiting:    gauge("weir_notify_waiting_events", "Events in memory that wait to be sent."),
	}
}
