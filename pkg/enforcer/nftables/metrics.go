package nftables

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"weir/pkg/enforcer/cidr"
)

// metrics are an Agent's.
type metrics struct {
	elements4, elements6   prometheus.Gauge
	repairs                prometheus.Counter
	notPermitted, refusals prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	elements := register(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "weir_enforcer_nftables_elements",
		Help: "Prefixes in the kernel's sets when they were last changed."}, []string{"family"}))
	failures := register(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_enforcer_nftables_errors_total",
		Help: "What the kernel refused."}, []string{"kind"}))
	return &metrics{
		elements4: elements.WithLabelValues("ipv4"), elements6: elements.WithLabelValues("ipv6"),
		repairs: register(r, prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_enforcer_nftables_repairs_total",
			Help: "Differences that others had made in the kernel's table and that were put right."})),
		notPermitted: failures.WithLabelValues("not_permitted"), refusals: failures.WithLabelValues("refused"),
	}
}

// register takes the metric that is there already where an Agent was made before in the process.
func register[C prometheus.Collector](r prometheus.Registerer, metric C) C {
	if r == nil {
		return metric
	}
	err := r.Register(metric)
	if before := (prometheus.AlreadyRegisteredError{}); errors.As(err, &before) {
		return before.ExistingCollector.(C)
	}
	if err != nil {
		panic(err)
	}
	return metric
}

func (m *metrics) hold(blocks []cidr.Block) {
	four := 0
	for _, b := range blocks {
		if b.Prefix.Addr().Is4() {
			four++
		}
	}
	m.elements4.Set(float64(four))
	m.elements6.Set(float64(len(blocks) - four))
}

func (m *metrics) repaired(differences int) { m.repairs.Add(float64(differences)) }

func (m *metrics) fault(err error) {
	if notPermitted(err) {
		m.notPermitted.Inc()
		return
	}
	m.refusals.Inc()
}
