package pipeline

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/telemetry"
	"weir/pkg/rule"
)

// metrics are those of all sources.
type metrics struct {
	requests, bytes    *prometheus.CounterVec
	uncounted, hits    *prometheus.CounterVec
	panics             *prometheus.CounterVec
	lagBytes, lagCount *prometheus.GaugeVec
	newest             *prometheus.GaugeVec
	seenValues         *prometheus.GaugeVec
	seenEarly          *prometheus.CounterVec
	outstanding        prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return telemetry.Register(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_collector_" + name, Help: help}, labels))
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return telemetry.Register(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "weir_collector_" + name, Help: help}, []string{"source"}))
	}

	return &metrics{
		requests:   counter("requests_total", "Requests read, including those that could not be parsed.", "source"),
		bytes:      counter("bytes_total", "Bytes of records read.", "source"),
		uncounted:  counter("uncounted_total", "Requests that gave no hit, by reason.", "source", "reason"),
		hits:       counter("hits_total", "Hits made, by rule.", "source", "rule"),
		panics:     counter("panics_total", "How often a part of the source was stopped by an error in the program, and tried again.", "source"),
		lagBytes:   gauge("lag_bytes", "Bytes of files that wait to be read."),
		lagCount:   gauge("lag_records", "Records of Kafka topics, or entries of streams, that wait to be read."),
		newest:     gauge("last_request_timestamp_seconds", "Time of the newest request read."),
		seenValues: gauge("seen_values", "Values that a source with dedupe remembers."),
		seenEarly:  counter("seen_early_total", "Values that a source with dedupe had to forget while they could still have been seen.", "source"),
		outstanding: telemetry.Register(r, prometheus.NewGauge(prometheus.GaugeOpts{Name: "weir_collector_outstanding_cuts",
			Help: "Batch boundaries in the journal that Kafka may not have yet."})),
	}
}

// sourceMetrics are those of one source.
type sourceMetrics struct {
	all             *metrics
	source          string
	requests, bytes prometheus.Counter
	panics          prometheus.Counter
	uncounted       [reasons]prometheus.Counter
	newest          prometheus.Gauge
	totals          totals
}

// totals are the counts that the metrics have, for the status.
type totals struct {
	requests    atomic.Int64
	uncounted   [reasons]atomic.Int64
	lost        atomic.Int64 // what was never read
	redelivered atomic.Int64 // what came again
}

// uncountedByWord is the number of requests that gave no hit, by reason; nil when there are none.
func (t *totals) uncountedByWord() map[string]int64 {
	var words map[string]int64
	for r := Counted + 1; r < reasons; r++ {
		if n := t.uncounted[r].Load(); n > 0 {
			if words == nil {
				words = map[string]int64{}
			}
			words[reasonWords[r]] = n
		}
	}
	return words
}

func (m *metrics) of(source string) *sourceMetrics {
	s := &sourceMetrics{all: m, source: source, requests: m.requests.WithLabelValues(source), bytes: m.bytes.WithLabelValues(source),
		panics: m.panics.WithLabelValues(source), newest: m.newest.WithLabelValues(source)}
	for r := Counted + 1; r < reasons; r++ {
		s.uncounted[r] = m.uncounted.WithLabelValues(source, reasonWords[r])
	}
	return s
}

// An Outcome counts what happened to records.
type Outcome struct {
	requests, bytes int64 // those that could not be read too
	uncounted       [reasons]int64
}

// Requests is the number of requests, including those that could not be read.
func (o Outcome) Requests() int64 { return o.requests }

// ByReason returns the requests that could not be read, and the others that gave no hit, by the words of their reasons.
func (o Outcome) ByReason() (unread, uncounted map[string]int64) {
	unread, uncounted = map[string]int64{}, map[string]int64{}
	for why := Counted + 1; why < reasons; why++ {
		switch n := o.uncounted[why]; {
		case n == 0:
		case why.unreadable():
			unread[reasonWords[why]] = n
		default:
			uncounted[reasonWords[why]] = n
		}
	}
	return unread, uncounted
}

// since is the difference to an earlier outcome.
func (o Outcome) since(before Outcome) Outcome {
	o.requests -= before.requests
	o.bytes -= before.bytes
	for r := range o.uncounted {
		o.uncounted[r] -= before.uncounted[r]
	}
	return o
}

// A tally is the counts of a stream.
type tally struct {
	Outcome                       // of all that was ever added
	flushed  Outcome              // the part that the metrics have
	hits     []int64              // by rule, those that the metrics do not have yet
	counters []prometheus.Counter // by rule, nil for those that count nothing here
}

// rules begins to count hits by other rules.
func (t *tally) rules(m *sourceMetrics, rules []*rule.Rule) {
	t.hits, t.counters = make([]int64, len(rules)), make([]prometheus.Counter, len(rules))
	for i, one := range rules {
		if one.CountsLog() || one.CountsRefusals() {
			t.counters[i] = m.all.hits.WithLabelValues(m.source, one.Name)
		}
	}
}

// flush adds the new counts to the metrics.
func (t *tally) flush(m *sourceMetrics) {
	unflushed := t.since(t.flushed)
	t.flushed = t.Outcome
	m.totals.requests.Add(unflushed.requests)
	move(&unflushed.requests, m.requests)
	move(&unflushed.bytes, m.bytes)
	for r := Counted + 1; r < reasons; r++ {
		m.totals.uncounted[r].Add(unflushed.uncounted[r])
		move(&unflushed.uncounted[r], m.uncounted[r])
	}
	for i := range t.hits {
		move(&t.hits[i], t.counters[i])
	}
}

func move(count *int64, to prometheus.Counter) {
	if *count > 0 {
		to.Add(float64(*count))
		*count = 0
	}
}
