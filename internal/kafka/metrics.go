package kafka

import (
	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/telemetry"
)

// newFaultsTotal counts errors by operation and by the kind of error, both closed sets. Clients that share a registerer
// share the counter.
func newFaultsTotal(registerer prometheus.Registerer) *prometheus.CounterVec {
	return telemetry.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_kafka_faults_total",
		Help: "Failed calls to Kafka, by operation and kind of error.",
	}, []string{"operation", "cause"}))
}
