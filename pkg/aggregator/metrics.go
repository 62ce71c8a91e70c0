package aggregator

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/telemetry"
	"weir/pkg/aggregator/windows"
	"weir/pkg/hit"
	"weir/pkg/rule"
)

// metrics are those of all partitions.
type metrics struct {
	hits        *prometheus.CounterVec
	unruled     prometheus.Counter // hits of rules that are not known, or with values of something else than their rule counts
	batches     batchMetrics
	lookups     struct{ hot, cold, fresh prometheus.Counter }
	broken      *prometheus.CounterVec
	guarded     *prometheus.CounterVec
	byShare     *prometheus.CounterVec
	detection   *prometheus.HistogramVec
	over        prometheus.Counter
	unpublished prometheus.Counter
	taken       *prometheus.CounterVec
	corrected   prometheus.Counter
	lost        prometheus.Counter
	swept       prometheus.Counter
	storeErrors *prometheus.CounterVec
	checkpoint  prometheus.Histogram
}

type batchMetrics struct {
	verdicts [4]prometheus.Counter
	damaged  prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{}
	series := func(name, help string, labels ...string) *prometheus.CounterVec {
		return telemetry.Register(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
	}

	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return telemetry.Register(r, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels))
	}
	m.hits = series("weir_aggregator_hits_total", "Hits taken out of the log, by rule and by what became of them.", "rule", "outcome")
	m.unruled = m.hits.WithLabelValues("", "unknown")
	batches := series("weir_aggregator_batches_total", "Batches taken out of the log, by what became of them.", "verdict")
	for v := range m.batches.verdicts {
		m.batches.verdicts[v] = batches.WithLabelValues(hit.Verdict(v).String())
	}

	m.batches.damaged = batches.WithLabelValues("damaged")
	lookups := series("weir_aggregator_lookups_total", "Windows looked up, by where they were.", "where")
	m.lookups.hot, m.lookups.cold, m.lookups.fresh = lookups.WithLabelValues("hot"), lookups.WithLabelValues("cold"), lookups.WithLabelValues("new")
	m.broken = series("weir_blocks_total", "Blocks published, by rule, mode and the limit that was broken.", "rule", "mode", "limit")
	m.guarded = series("weir_aggregator_guarded_total", "New blocks that the guard of their rule keeps from being enforced.", "rule")
	m.byShare = series("weir_aggregator_guarded_share_total", "Those of weir_aggregator_guarded_total that exceed the most_share of the guard.", "rule")
	m.over = series("weir_aggregator_verdicts_over_total", "Verdicts whose block was over before it could be published.").WithLabelValues()
	m.corrected = series("weir_aggregator_corrected_total", "Entries published again because late hits have shown an earlier break.").WithLabelValues()
	m.unpublished = series("weir_aggregator_unpublished_total", "Verdicts and events that cannot be published: Kafka or the list refuses them for good.").WithLabelValues()
	m.taken = series("weir_aggregator_anew_total", "Partitions begun anew, by why: another owner or a store that went back, another log, a damaged checkpoint.", "why")
	m.lost = series("weir_aggregator_lost_records_total", "Records that the log no longer had when they were to be read.").WithLabelValues()
	m.swept = series("weir_aggregator_swept_keys_total", "Windows deleted from the store because they had become clear.").WithLabelValues()
	m.storeErrors = series("weir_aggregator_store_errors_total", "Calls to the store that failed.", "op")
	for _, why := range []string{"fenced", "generation", "checkpoint"} {
		m.taken.WithLabelValues(why) // shown before the first
	}

	for _, op := range []string{"take", "call"} {
		m.storeErrors.WithLabelValues(op)
	}
	m.detection = histogram("weir_aggregator_detection_delay_seconds", "From the time of the request that broke a limit to its verdict.",
		[]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}, "rule")

	m.checkpoint = telemetry.Register(r, prometheus.NewHistogram(prometheus.HistogramOpts{Name: "weir_aggregator_checkpoint_seconds",
		Help: "How long writing a checkpoint took.", Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5}}))
	return m
}

// blocked notes a block that is published, so long after the request that began it.
func (m *metrics) blocked(r *windows.Rule, v *windows.Verdict, after time.Duration) {
	m.broken.WithLabelValues(r.Name, r.ModeOf(v), v.Limit).Inc()
	m.detection.WithLabelValues(r.Name).Observe(after.Seconds())
}

// guards notes a block that the guard of its rule keeps from being enforced.
func (m *metrics) guards(r *windows.Rule, by windows.Beyond) {
	m.guarded.WithLabelValues(r.Name).Inc()
	if by == windows.MostShare {
		m.byShare.WithLabelValues(r.Name).Inc()
	}
}

// showRules starts the series of rules at 0, so that an alert sees a rule's first block as an increase.
func (m *metrics) showRules(set *rule.Set) {
	for _, r := range set.Rules {
		if !r.CountsLog() && !r.CountsBlocks() {
			continue
		}
		m.detection.WithLabelValues(r.Name)
		m.guarded.WithLabelValues(r.Name)
		m.byShare.WithLabelValues(r.Name)
		for _, limit := range r.Limits {
			m.broken.WithLabelValues(r.Name, r.Mode.String(), limit.Text)
		}
	}
}
