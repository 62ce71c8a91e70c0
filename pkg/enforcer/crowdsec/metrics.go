package crowdsec

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct{ requests *prometheus.CounterVec }

func newMetrics(r prometheus.Registerer, a *API) *metrics {
	m := &metrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_enforcer_crowdsec_requests_total", Help: "Requests of CrowdSec's bouncers, by endpoint and the answer's status.",
	}, []string{"endpoint", "code"})}
	gauge := func(name, help string, of func(*table) int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(a.sum(of)) })
	}
	r.MustRegister(m.requests,
		gauge("weir_enforcer_crowdsec_bouncers", "CrowdSec's bouncers that came in the last week.", func(t *table) int { return len(t.bouncers) }),
		gauge("weir_enforcer_crowdsec_decisions", "Decisions kept for CrowdSec's bouncers.", func(t *table) int { return t.rows }))
	return m
}

func (m *metrics) count(endpoint string, code int) {
	m.requests.WithLabelValues(endpoint, strconv.Itoa(code)).Inc()
}

// sum adds up a figure of both tables.
func (a *API) sum(of func(*table) int) (sum int) {
	for _, t := range []*table{a.masks, a.single} {
		t.mu.Lock()
		sum += of(t)
		t.mu.Unlock()
	}
	return sum
}
