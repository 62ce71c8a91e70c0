package kafka

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// newFaultsTotal counts errors by operation and by the kind of error, both closed sets. Clients that share a registerer
// share the counter.
func newFaultsTotal(registerer prometheus.Registerer) *prometheus.CounterVec {
	total := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_kafka_faults_total",
		Help: "Failed calls to Kafka, by operation and kind of error.",
	}, []string{"operation", "cause"})

	if registerer == nil {
		return total
	}
	err := registerer.Register(total)
	var earlier prometheus.AlreadyRegisteredError
	if errors.As(err, &earlier) {
		return earlier.ExistingCollector.(*prometheus.CounterVec)
	}
	if err != nil {
		panic(err) // another collector has our name: a bug in the program
	}

	return total
}
