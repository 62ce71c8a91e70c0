package enforcer

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/telemetry"
	"weir/pkg/inline"
	"weir/pkg/inline/guarded"
	"weir/pkg/inline/stored"
)

// An InlineStore is where several enforcers count inline rules together.
type InlineStore struct {
	Backend stored.Backend // Run's caller closes it afterwards
	Name    string         // for people
	Budget  time.Duration  // how long a request waits for it; 20 ms unless given
	// Enforcers is how many share it: each has as much of the limits of a rule with on_error: local, while the store fails.
	// At least 1.
	Enforcers int
	// History is the Backend if it is to keep a history, or nil.
	History stored.History
}

// openInline makes the store of inline rules: a Memory, or one that others share.
func (e *Enforcer) openInline(c *Config) {
	memory := inline.New(c.Inline)
	if c.InlineStore == nil {
		e.inline, e.memory = memory, memory
		return
	}
	own := c.InlineStore
	e.shared = stored.New(stored.Config{Backend: own.Backend, Rule: e.inlineRuleNow, Keys: c.Inline.Keys, Settle: c.Inline.Settle, Slack: max(own.Budget, leastSlack), History: own.History != nil})
	guard := guarded.New(guarded.Config{Store: e.shared, Memory: memory, Budget: own.Budget, Asked: e.askedStore})
	e.inline, e.storeAway = guard, guard.Away
}

// leastSlack is how old a decision may be at least when the store commits it.
const leastSlack = 20 * time.Millisecond

// inlineRuleNow returns the limits of an inline rule, or nil.
func (e *Enforcer) inlineRuleNow(name string) *inline.Rule {
	r := e.ruling.Load()
	if r == nil {
		return nil
	}
	if _, i := r.Rules.Rule(name); i >= 0 {
		return r.limits[i].enforced
	}
	return nil
}

// storeMetrics are those of a store that others share.
type storeMetrics struct {
	seconds prometheus.Histogram
	busy    prometheus.Counter
	failed  prometheus.Counter
	without [inline.Local + 1]prometheus.Counter
}

func newStoreMetrics(r prometheus.Registerer, away func() bool) *storeMetrics {
	m := &storeMetrics{seconds: telemetry.Register(r, prometheus.NewHistogram(prometheus.HistogramOpts{Name: "weir_inline_store_seconds",
		Help:    "Time that the store of inline rules took to answer, or to fail.",
		Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .02, .05, .1, .25, 1}}))}
	errs := telemetry.Register(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_inline_store_errors_total",
		Help: "Questions that the store of inline rules did not answer in time, by whether it failed or too many asked for one key."}, []string{"why"}))
	m.failed, m.busy = errs.WithLabelValues("failed"), errs.WithLabelValues("busy")
	without := telemetry.Register(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_inline_without_store_total",
		Help: "Attempts at inline rules that were answered without the store, by the answer of the rule that decided."}, []string{"answer"}))
	for _, o := range []inline.OnError{inline.Allow, inline.Refuse, inline.Local} {
		m.without[o] = without.WithLabelValues(o.String())
	}
	if r != nil {
		g := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "weir_inline_store_away", Help: "1 while the store of inline rules is not asked, because it has failed."},
			func() float64 { return oneIf(away()) })
		r.Unregister(g)
		r.MustRegister(g)
	}
	return m
}

// askedStore notes how a question to the store went.
func (e *Enforcer) askedStore(took time.Duration, err error) {
	m := e.storeMetrics
	m.seconds.Observe(took.Seconds())
	switch {
	case err == nil:
		e.faults.Over("inline store")
	case errors.Is(err, inline.ErrBusy):
		m.busy.Inc()
		e.faults.Note("inline store, one key", err)
	default:
		m.failed.Inc()
		e.faults.Note("inline store", err)
	}
}

// knowsLimit reports whether the answer to a Want has its limit and the number of hits left.
func (t *attempt) knowsLimit(j int) bool {
	switch t.verdict.OnError {
	case inline.Answered:
		return true
	case inline.Local:
		return t.wants[j].Rule.OnError == inline.Local
	}
	return false
}

// storeField is the field of an answer that was made without the store: allow, refuse or local.
const storeField = "X-Weir-Store"

// countStore counts an attempt that was answered without the store.
func (e *Enforcer) countStore(v *inline.Verdict) {
	if v.OnError != inline.Answered {
		e.storeMetrics.without[v.OnError].Inc()
	}
}

// storeWord is how an attempt was answered, for JSON; empty where no store is shared.
func (e *Enforcer) storeWord(v *inline.Verdict) string {
	if e.shared == nil {
		return ""
	}
	return v.OnError.String()
}
