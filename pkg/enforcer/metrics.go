package enforcer

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/telemetry"
	"weir/pkg/blocklist"
	"weir/pkg/enforcer/tally"
	"weir/pkg/inline"
)

// metrics are the metrics of an enforcer.
type metrics struct {
	checks                               *prometheus.CounterVec
	passed, allowed, paused, withoutList prometheus.Counter
	attempts                             *prometheus.CounterVec
	settled, unsettled                   prometheus.Counter
	followers                            prometheus.Gauge
	delay                                prometheus.Histogram
	tally                                *tally.Tally
	manual                               ruleCounts
}

// ruleCounts count the checks that a rule's entries decided.
type ruleCounts struct {
	refused, shadow prometheus.Counter
	tally           *tally.Rule
}

func newMetrics(r prometheus.Registerer, set *blocklist.Set, store inline.Store, counts *tally.Tally, now func() time.Time) *metrics {
	m := &metrics{tally: counts,
		checks: telemetry.Register(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_enforcer_checks_total",
			Help: "Checks, by answer and by the rule that decided it."}, []string{"rule", "answer"})),
		attempts: telemetry.Register(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_inline_attempts_total",
			Help: "Attempts at the limits of inline rules, by rule and by answer."}, []string{"rule", "answer"})),
		followers: telemetry.Register(r, prometheus.NewGauge(prometheus.GaugeOpts{Name: "weir_enforcer_followers",
			Help: "Followers of the list over HTTP now."})),
		delay: telemetry.Register(r, prometheus.NewHistogram(prometheus.HistogramOpts{Name: "weir_enforcer_enforce_delay_seconds",
			Help:    "Time from the decision of an entry until it was active here.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 60}})),
	}

	settled := telemetry.Register(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_inline_settled_total",
		Help: "Attempts that were settled, by whether they were known."}, []string{"known"}))
	m.settled, m.unsettled = settled.WithLabelValues("yes"), settled.WithLabelValues("no")

	none := m.checks.MustCurryWith(prometheus.Labels{"rule": ""})
	m.passed, m.allowed = none.WithLabelValues("passed"), none.WithLabelValues("allowed")
	m.paused, m.withoutList = none.WithLabelValues("paused"), none.WithLabelValues("without_list")
	m.manual = m.ruleCounts(blocklist.ManualRule) // begin at 0, as those of the rules do
	if r != nil {
		m.ofList(r, set, now)
		ofMemory(r, store)
	}

	return m
}

// ofList registers metrics that read the list when they are collected.
func (m *metrics) ofList(r prometheus.Registerer, set *blocklist.Set, now func() time.Time) {
	gauge := func(name, help string, value func() float64) {
		g := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "weir_enforcer_" + name, Help: help}, value)
		r.Unregister(g)
		r.MustRegister(g)
	}
	gauge("list_last_update_timestamp_seconds", "When the list was last known to be up to date; 0 without one.", func() float64 { return float64(set.AsOf()) / 1000 })
	gauge("list_whole", "1 when there is a complete list, which may be an old one.", func() float64 { return oneIf(set.Whole()) })
	gauge("paused", "1 while all or some rules are paused.", func() float64 { return oneIf(len(pauses(set, now().UnixMilli())) > 0) })
	entries := &entryCounts{set, now}
	r.Unregister(entries)
	r.MustRegister(entries)
}

// ofMemory registers metrics of the memory for inline rules.
func ofMemory(r prometheus.Registerer, store inline.Store) {
	read := func(name, help string, value func(inline.Stats) float64) {
		g := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "weir_inline_" + name, Help: help}, func() float64 { return value(store.Stats()) })
		r.Unregister(g)
		r.MustRegister(g)
	}
	count := func(name, help string, value func(inline.Stats) float64) {
		c := prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "weir_inline_" + name, Help: help}, func() float64 { return value(store.Stats()) })
		r.Unregister(c)
		r.MustRegister(c)
	}
	read("keys", "Keys of inline rules in memory.", func(s inline.Stats) float64 { return float64(s.Keys) })
	read("settleable", "Attempts that can be settled.", func(s inline.Stats) float64 { return float64(s.Attempts) })
	count("keys_forgotten_total", "Keys that were dropped while they still counted, because there were too many.", func(s inline.Stats) float64 { return float64(s.Forgotten) })
	count("attempts_lost_total", "Attempts that could no longer be settled before their time, because there were too many.", func(s inline.Stats) float64 { return float64(s.Lost) })
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func (m *metrics) ruleCounts(rule string) ruleCounts {
	return ruleCounts{m.checks.WithLabelValues(rule, "refused"), m.checks.WithLabelValues(rule, "shadow"), m.tally.Rule(rule)}
}

// entryCounts count the active entries.
type entryCounts struct {
	set *blocklist.Set
	now func() time.Time
}

var entriesMetric = prometheus.NewDesc("weir_enforcer_entries", "Active entries.", []string{"rule", "mode"}, nil)

// Describe describes the metrics of Collect.
func (c *entryCounts) Describe(to chan<- *prometheus.Desc) { to <- entriesMetric }

// Collect counts.
func (c *entryCounts) Collect(to chan<- prometheus.Metric) {
	type of struct{ rule, mode string }
	manual := of{blocklist.ManualRule, blocklist.Enforce.String()}
	counts := map[of]int{manual: 0}
	for _, n := range c.set.Counts() {
		if !strings.Contains(n.Rule, "/") { // other names are scopes of manual entries, which include allows
			counts[of{n.Rule, n.Mode.String()}] += n.Entries
		}
	}

	// Blocks by hand are counted one by one: the Set counts orders by scope only, allows among them.
	for order := range c.set.Orders(c.now().UnixMilli()) {
		if order.Kind == blocklist.OrderBlock {
			counts[manual]++
		}
	}

	for of, n := range counts {
		to <- prometheus.MustNewConstMetric(entriesMetric, prometheus.GaugeValue, float64(n), of.rule, of.mode)
	}
}
