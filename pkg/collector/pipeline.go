package collector

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"weir/pkg/collector/pace"
	"weir/pkg/hit"
	"weir/pkg/request"
	"weir/pkg/rule"
)

// partsBytes is the memory that lines in parts (docker, cri) may use in all streams together, besides 128 KiB each.
const partsBytes = 64 << 20

// A pipeline is what the streams of all sources share: the rules, the sink, and the bounds that they have together.
type pipeline struct {
	config  Config
	now     func() time.Time // the clock of all that is in the pipeline
	metrics *metrics
	ruling  atomic.Pointer[ruling]
	kept    rulesKept
	group   *pace.Group
	writers writers
	parts   *request.Memory // of lines in parts
}

func newPipeline(config Config) *pipeline {
	return &pipeline{
		config: config, now: time.Now, metrics: newMetrics(config.Metrics), kept: rulesKept{filepath.Join(config.Folder, "rules")},
		group: pace.New(config.Logger, time.Now), parts: request.NewMemory(partsBytes),
	}
}

// rulingOf returns the rules with a fingerprint, with the proxies that are trusted now; nil when they are no longer
// known.
func (p *pipeline) rulingOf(fingerprint string) *ruling {
	now := p.ruling.Load()
	if now.fingerprint == fingerprint {
		return now
	}
	if set := p.kept.find(fingerprint); set != nil {
		return newRuling(set, now.client)
	}
	return nil
}

// judgeBy replaces the rules and the trusted proxies, from each stream's next cut on.
func (p *pipeline) judgeBy(set *rule.Set, client *request.Client) {
	if err := p.kept.keep(set); err != nil {
		p.config.Logger.Warn("the rules could not be stored: batches that have to be made again by them may differ", "error", err)
	}
	p.ruling.Store(newRuling(set, client))
}

// drainPatience is how long a source waits at its end for Kafka to acknowledge the hits that it has sent.
const drainPatience = 5 * time.Second

// draining is a context for the end of a source.
func draining(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.WithoutCancel(ctx), drainPatience, errUndrained)
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
