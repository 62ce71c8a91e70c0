// Package pipeline turns the records of logs into batches of hits and sends them, each once. A source gives the records
// of each log to a Stream, which parses them, judges them by the rules, packs the hits into batches, and cuts: a Cut is
// noted in the log's Journal before it is sent. Intake is what the streams of one source share, its status and its
// metrics; Pipeline is what all share, the rules, the sink and bounds.
//
// The package does not know where records come from, nor how a journal keeps cuts. It starts no goroutines.
package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/topic"
	"weir/pkg/collector/journal"
	"weir/pkg/collector/pace"
	"weir/pkg/evidence"
	"weir/pkg/hit"
	"weir/pkg/inline"
	"weir/pkg/request"
	"weir/pkg/rule"
)

const partsBytes = 64 << 20

// A Config is what the streams of all sources share.
type Config struct {
	Folder     string        // of the rules that are kept; made when missing
	Late       time.Duration // how far a source may be ahead of the others when they are read from behind
	Ahead      time.Duration // how far ahead of our clock a request may be
	Sink       Sink
	Partitions int               // of the sink
	Retention  time.Duration     // of the sink's log: older cuts are never sent again; 0 is unlimited
	Batch      time.Duration     // how long a live record may wait for others, so that they are sent together; 0 is not at all
	Pace       *pace.Group       // of the logs
	Now        func() time.Time  // the clock
	Evidence   *evidence.Ring    // of the last requests that counted; nil keeps none
	Ended      func([]inline.ID) // takes attempts whose requests have ended (ends: log), and does not wait; nil reads none

	RestartAfter time.Duration // a panic; 0 is 10 s
	PartsBytes   int64         // of the lines in parts (docker, cri) of all streams, besides 128 KiB each; 0 is 64 MiB

	Logger  *slog.Logger
	Metrics prometheus.Registerer // nil is none
}

// A Sink takes batches: a kafka.Producer. Send takes all messages in their order, or none with an error; it waits
// while there is no room. Each message's Done is called once it is settled, in a partition's order.
type Sink interface {
	Send(ctx context.Context, messages ...topic.Message) error
}

// A Send sends the messages of a cut as a Sink does.
type Send func(ctx context.Context, c *journal.Cut, messages []topic.Message) error

// A Start is where a source begins if nothing is stored about it; the zero value is its earliest record.
type Start struct {
	Latest bool
	Before time.Duration // not older than this
}

// A Pipeline is what the streams of all sources share: the rules, the sink, and the bounds that they have together.
type Pipeline struct {
	config  Config
	metrics *metrics
	ruling  atomic.Pointer[ruling]
	kept    rulesKept
	writers writers
	parts   *request.Memory // of lines in parts
	beat    beat

	finding   sync.Mutex
	lastFound weak.Pointer[rule.Set]
}

// New makes a pipeline, which has no rules before SetRules.
func New(config Config) *Pipeline {
	p := &Pipeline{config: config, metrics: newMetrics(config.Metrics), kept: rulesKept{config.Folder}, parts: request.NewMemory(cmp.Or(config.PartsBytes, partsBytes))}
	p.beat.every = config.Batch
	return p
}

// Now is the time of the clock.
func (p *Pipeline) Now() time.Time { return p.config.Now() }

// Outstanding is the gauge of the cuts that Kafka may not have.
func (p *Pipeline) Outstanding() prometheus.Gauge { return p.metrics.outstanding }

// Fingerprint is that of the present rules.
func (p *Pipeline) Fingerprint() string { return p.ruling.Load().fingerprint }

// TooOld reports whether a cut that was begun at a time is too old to be sent again: the aggregator may no longer know
// that it has counted it.
func (p *Pipeline) TooOld(clock int64) (age time.Duration, is bool) {
	age = p.Now().Sub(time.UnixMilli(clock))
	return age.Round(time.Second), p.config.Retention > 0 && age > p.config.Retention*9/10
}

// Send sends the messages of a cut to the sink.
func (p *Pipeline) Send(ctx context.Context, _ *journal.Cut, messages []topic.Message) error {
	return p.config.Sink.Send(ctx, messages...)
}

// SendAgain sends a noted cut that may have been sent already. It calls settled once Kafka has all of it; refused
// reports batches that Kafka refuses permanently.
func (p *Pipeline) SendAgain(ctx context.Context, c *journal.Cut, send Send, settled func(), refused func(error)) error {
	if len(c.Batches) == 0 {
		settled()
		return nil
	}

	var left atomic.Int32
	left.Store(int32(len(c.Batches)))
	return send(ctx, c, messages(c, func(b *journal.Batch, err error) {
		if errors.Is(err, topic.ErrClosed) {
			return // it stays in the journal
		}
		if err != nil {
			refused(fmt.Errorf("%d hits of %s are lost: %w", b.Hits, c.Source, err))
		}
		if left.Add(-1) == 0 {
			settled()
		}
	}))
}

// rulingOf returns the rules with a fingerprint, with the proxies that are trusted now; nil when they are no longer
// known.
func (p *Pipeline) rulingOf(fingerprint string) *ruling {
	now := p.ruling.Load()
	if now.fingerprint == fingerprint {
		return now
	}
	if set := p.found(fingerprint); set != nil {
		return newRuling(set, now.client, &p.config)
	}
	return nil
}

// found returns a set that is stored. Streams that need one set share it, because its databases may be large.
func (p *Pipeline) found(fingerprint string) *rule.Set {
	p.finding.Lock()
	defer p.finding.Unlock()
	if set := p.lastFound.Value(); set != nil && set.Fingerprint() == fingerprint {
		return set
	}
	set := p.kept.find(fingerprint)
	if set != nil {
		p.lastFound = weak.Make(set)
	}
	return set
}

// SetRules replaces the rules and the trusted proxies, from each stream's next cut on.
func (p *Pipeline) SetRules(set *rule.Set, client *request.Client) {
	if err := p.kept.keep(set); err != nil {
		p.config.Logger.Warn("the rules could not be stored: batches that have to be made again by them may differ", "error", err)
	}
	p.ruling.Store(newRuling(set, client, &p.config))
}

// DrainPatience is how long a source waits at its end for Kafka to acknowledge the hits that it has sent.
const DrainPatience = 5 * time.Second

// Draining returns a context for the end of a source: it lasts DrainPatience, also when the other is done.
func Draining(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.WithoutCancel(ctx), DrainPatience, errUndrained)
}

var errUndrained = errors.New("kafka did not acknowledge in time; the journal has the rest")

// writers are spare ones, so that only streams with hits keep any.
type writers struct {
	mu    sync.Mutex
	spare []*hit.Writer
}

const spareWriters = 64

func (w *writers) get() *hit.Writer {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.spare); n > 0 {
		writer := w.spare[n-1]
		w.spare = w.spare[:n-1]
		return writer
	}
	return hit.NewWriter()
}

func (w *writers) put(writer *hit.Writer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.spare) < spareWriters {
		w.spare = append(w.spare, writer)
	}
}
