package daemon

import "github.com/prometheus/client_golang/prometheus"

// queue tells of a queue in the metrics: how much it holds and how much it can.
func (p *Process) queue(name string, capacity float64, depth func() float64) {
	of := prometheus.Labels{"queue": name}
	full := func() float64 { return capacity }
	p.Metrics.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "weir_queue_depth", Help: "Bytes that a queue holds.", ConstLabels: of}, depth),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "weir_queue_capacity", Help: "Bytes that a queue may hold.", ConstLabels: of}, full),
	)
}
