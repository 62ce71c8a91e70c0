package nftables

import (
	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/telemetry"

	"weir/pkg/enforcer/cidr"
)

// metrics are the metrics of an Agent.
type metrics struct {
	elements4, elements6   prometheus.Gauge
	repairs                prometheus.Counter
	notPermitted, refusals prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	elements := telemetry.Register(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "weir_enforcer_nftables_elements",
		Help: "Prefixes in the kernel's sets when they were last changed."}, []string{"family"}))
	failures := telemetry.Register(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_enforcer_nftables_errors_total",
		Help: "Changes that the kernel refused."}, []string{"kind"}))
	return &metrics{
		elements4: elements.WithLabelValues("ipv4"), elements6: elements.WithLabelValues("ipv6"),
		repairs: telemetry.Register(r, prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_enforcer_nftables_repairs_total",
			Help: "Differences in the kernel's table that other programs made, and that were corrected."})),
		notPermitted: failures.WithLabelValues("not_permitted"), refusals: failures.WithLabelValues("refused"),
	}
}

func (m *metrics) setBlocks(blocks []cidr.Block) {
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

func (m *metrics) countError(err error) {
	if notPermitted(err) {
		m.notPermitted.Inc()
		return
	}
	m.refusals.Inc()
}
