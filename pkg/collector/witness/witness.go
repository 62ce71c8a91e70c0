// Package witness sends the evidence of a collector: for each block that weir.events reports, the last requests of its
// key that this collector has counted. They go to the topic weir.evidence as one record (package evidence).
//
// It reads all partitions of the events from about their ends, without a group, so each collector sees each block and
// sends its own evidence. Nothing waits for this package: if its queue is full, or the topics cannot be used, evidence is
// missing and counted as such, and counting goes on. After a crash the evidence of that process is lost.
//
// Run has a goroutine for each partition, and returns when all have ended.
package witness

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/sleep"
	"weir/internal/telemetry"
	"weir/internal/topic"
	"weir/pkg/blocklist"
	"weir/pkg/evidence"
	"weir/pkg/rule"
)

// QueueBytes is how much waits to be written at most.
const QueueBytes = 4 << 20

// A Config is what a Witness needs.
type Config struct {
	Log       topic.Log
	Events    string      // the topic's name
	Evidence  topic.Topic // made or checked by Run
	Ring      *evidence.Ring
	Rules     func() *rule.Set // the present ones
	Collector string           // the id of the collector
	Logger    *slog.Logger     // nil is silence
	Metrics   prometheus.Registerer
}

// A Witness answers events with evidence.
type Witness struct {
	config Config
	faults *telemetry.Faults
	sent   prometheus.Counter
	lost   *prometheus.CounterVec
}

// The reasons why evidence is missing.
const (
	lostQueue = "queue" // it was full
	lostTopic = "topic" // the events cannot be read, or the evidence not be written
)

// New makes a Witness.
func New(config Config) *Witness {
	w := &Witness{config: config, faults: telemetry.NewFaults(cmp.Or(config.Logger, slog.New(slog.DiscardHandler)))}
	w.sent = telemetry.Register(config.Metrics, prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_collector_evidence_total",
		Help: "Records of evidence sent: the last requests of a key that was blocked."}))
	w.lost = telemetry.Register(config.Metrics, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_collector_evidence_lost_total",
		Help: "Failures for which evidence is missing, by reason: a full queue, or a topic that cannot be read or written."}, []string{"reason"}))
	w.lost.WithLabelValues(lostQueue)
	w.lost.WithLabelValues(lostTopic)
	return w
}

// Run sends evidence until the context is done.
func (w *Witness) Run(ctx context.Context) {
	var spans []topic.Span
	if !w.insist(ctx, "evidence", func() error { return w.config.Log.EnsureTopics(ctx, w.config.Evidence) }) ||
		!w.insist(ctx, whatEvents, func() (err error) { spans, err = w.config.Log.Offsets(ctx, w.config.Events); return err }) {
		return
	}
	to := w.config.Log.Appender(topic.AppenderConfig{Topic: w.config.Evidence.Name, Partitions: w.config.Evidence.Partitions, QueueBytes: QueueBytes})

	var running sync.WaitGroup
	for partition, span := range spans {
		from := max(span.Start, span.End-again)
		running.Go(func() { w.read(ctx, w.config.Log.Reader(w.config.Events, partition, from, 0), partition, to) })
	}
	running.Wait()

	closing, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	_ = to.Close(closing) // evidence may be lost
}

// again is how many of the last events are read at the start: blocks by what was counted while the ends were asked for.
// For earlier ones there is nothing to send.
const again = 1000

// closePatience is how long the last records may take to be written.
const closePatience = time.Second

const whatEvents = "events"

// insist calls something until it succeeds; false means that the context ended before.
func (w *Witness) insist(ctx context.Context, what string, call func() error) bool {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 10*time.Second) {
		err := call()
		if err == nil {
			w.faults.Over(what)
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if what != whatEvents || !errors.Is(err, topic.ErrNoTopic) { // aggregators and enforcers make that topic
			w.failed(what, err)
		}
		sleep.For(ctx, pause)
	}
}

func (w *Witness) failed(what string, err error) {
	w.lost.WithLabelValues(lostTopic).Inc()
	w.faults.Note(what, fmt.Errorf("entries lack evidence, and counting goes on: %w", err))
}

// read answers the events of a partition.
func (w *Witness) read(ctx context.Context, events topic.Reader, partition int, to topic.Appender) {
	what := fmt.Sprintf("events/%d", partition)
	topic.SetPatient(events, true)
	for ctx.Err() == nil {
		records, err := events.Fetch(ctx)
		switch {
		case err == nil:
			w.faults.Over(what)
		case ctx.Err() != nil:
			return
		case errors.Is(err, topic.ErrTrimmed):
			events.SetNext(events.Span().Start)
			continue
		case errors.Is(err, topic.ErrPastEnd): // the topic was made again
			events.SetNext(events.Span().End)
			continue
		default: // the reader has paused
			w.failed(what, err)
			continue
		}
		for i := range records {
			w.answer(&records[i], partition, to)
		}
	}
}

// answer sends what this collector has for an event.
func (w *Witness) answer(event *topic.Record, partition int, to topic.Appender) {
	record := w.recordOf(event.Value)
	if record == nil {
		return
	}
	line, err := record.Append(nil)
	if err != nil {
		w.failed("record", err)
		return
	}

	// Evidence has as many partitions as the events, unless a setting differs.
	message := topic.Message{Partition: partition % w.config.Evidence.Partitions, Key: []byte(record.ID), Value: line, Done: w.done}
	switch err := to.TrySend(message); {
	case errors.Is(err, topic.ErrFull):
		w.lost.WithLabelValues(lostQueue).Inc()
		w.faults.Note("queue", errors.New("entries lack evidence: the queue to its topic is full"))
	case err != nil:
		w.failed("evidence", err)
	}
}

func (w *Witness) done(_ int64, err error) {
	switch {
	case err == nil:
		w.sent.Inc()
	case !errors.Is(err, topic.ErrClosed):
		w.failed("evidence", err)
	}
}

// An event is the part of a line of weir.events that decides whether it asks for evidence.
type event struct {
	Event string `json:"event"`
	blocklist.Entry
}

// UnmarshalJSON reads an event: an entry has its own form.
func (e *event) UnmarshalJSON(text []byte) error {
	var what struct {
		Event string `json:"event"`
	}
	if err := json.Unmarshal(text, &what); err != nil {
		return fmt.Errorf("reading an event: %w", err)
	}
	e.Event = what.Event
	return e.Entry.UnmarshalJSON(text)
}

// recordOf returns the evidence for an event; nil for events of other kinds, and when there is none.
func (w *Witness) recordOf(line []byte) *evidence.Record {
	if !bytes.Contains(line, []byte(blocklist.EventBlocked)) && !bytes.Contains(line, []byte(blocklist.EventExtended)) {
		return nil
	}
	var e event
	if err := json.Unmarshal(line, &e); err != nil || e.Source != blocklist.Verdict {
		return nil
	}

	// Requests within a block do not count, unless they extend it.
	upTo := e.From
	switch e.Event {
	case blocklist.EventBlocked:
	case blocklist.EventExtended:
		upTo = math.MaxInt64
	default:
		return nil
	}

	r, _ := w.config.Rules().Rule(e.Rule)
	if r == nil || r.Evidence == 0 {
		return nil
	}
	ring := w.config.Ring
	most := int(min(int64(r.Evidence), max(1, e.Count))) // those behind the block may have its very time
	found := ring.Find(ring.Hash(ring.Rule(e.Rule), []byte(e.Key)), upTo, most)
	if len(found) == 0 {
		return nil
	}
	return &evidence.Record{ID: e.ID, Rule: e.Rule, Key: e.Key, Counted: e.Count, Most: most, Collector: w.config.Collector, Requests: found}
}
