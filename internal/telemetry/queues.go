package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Queue registers a queue's depth in bytes, which the function depth returns, its capacity, and its number of drops,
// which starts at 0. Names are a closed set; of two queues with one name the later is shown. The registry may be nil.
func Queue(r prometheus.Registerer, name string, capacity float64, depth func() float64) {
	if r == nil {
		return
	}
	of := prometheus.Labels{"queue": name}
	for _, gauge := range []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "weir_queue_depth", Help: "Bytes in the queue.", ConstLabels: of}, depth),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "weir_queue_capacity", Help: "Capacity of the queue in bytes.", ConstLabels: of},
			func() float64 { return capacity }),
	} {
		r.Unregister(gauge)
		r.MustRegister(gauge)
	}

	Dropped(r, name) // so that an alert sees the first drop as an increase
}

// Dropped counts items that a full queue dropped.
func Dropped(r prometheus.Registerer, name string) prometheus.Counter {
	dropped := prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_queue_dropped_total", Help: "Items dropped because the queue was full.",
		ConstLabels: prometheus.Labels{"queue": name}})
	return Register(r, dropped)
}
