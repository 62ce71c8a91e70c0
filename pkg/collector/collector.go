// Package collector reads requests from their sources and sends the hits that the rules count to Kafka, exactly once.
//
// A source (files, topics, streams of other servers, an HTTP or a syslog listener) brings the records of its logs. Each log has a stream, which
// parses the records, judges them by the rules, packs the hits into one batch per partition, and cuts. A cut is the
// part of the log between two positions and the batches made from it. The journal notes a cut before the stream sends
// it, and sends the noted bytes again after a crash; a sink with notes takes the position in one write with the hits. The aggregator skips batches that it has already counted
// (hit.Positions). So every request of a source that can be replayed is counted exactly once, whichever process is
// killed.
//
// Guarantees. A log's position never goes back, unless its journal does: then the batches sent overlap those
// already counted, the collector logs this, and the aggregator reports a conflict; it never skips them silently. The
// batches of a log reach each partition in the log's order. Every record that gives no hit is counted by its reason.
// Time is the request's; the collector's clock only decides which requests are ahead of it, and the cut keeps that
// clock's value.
//
// Bounds. A stream has at most 64 cuts and 8 MiB in flight; then it waits, and its source with it: files wait to be
// read, HTTP answers 429, UDP drops and counts. While the journal cannot be written (a full disk) or Kafka is away
// nothing is read and nothing is lost.
//
// One goroutine per log reads, parses, judges and packs; one writes the file journal; the producer has its own. Run
// starts them and waits for them. One collector owns a folder and locks it.
//
// This package does not count, and it sends to one topic only.
package collector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"weir/pkg/collector/files"
	"weir/pkg/collector/journal"
	"weir/pkg/collector/listeners"
	"weir/pkg/collector/ordered"
	"weir/pkg/collector/pace"
	"weir/pkg/collector/pipeline"
	"weir/pkg/collector/topics"
	"weir/pkg/request"
	"weir/pkg/rule"
)

// A Collector runs the sources of one process.
type Collector struct {
	config   Config
	pipeline *pipeline.Pipeline
	journal  *journal.Journal
	cuts     *pipeline.KeptCuts
	known    *files.Logs
	logs     *topics.Logs
	kept     *ordered.Kept
	intakes  []*pipeline.Intake

	mu      sync.Mutex // guards the elements of sources, by intake
	sources []pipeline.Source
}

// Open locks the folder and reads its journal. Close unlocks it.
func Open(config Config) (*Collector, error) {
	config.Logger = cmp.Or(config.Logger, slog.New(slog.DiscardHandler))
	config.pace = pace.New(config.Logger, time.Now)
	p := pipeline.New(pipeline.Config{
		Folder: filepath.Join(config.Folder, "rules"), Late: config.Late, Ahead: config.Ahead, Sink: config.Sink, Partitions: config.Partitions,
		Batch: config.Batch, Evidence: config.Evidence, Ended: config.Ended,
		Retention: config.Retention, Pace: config.pace, Now: time.Now,
		RestartAfter: config.restartAfter, PartsBytes: config.partsBytes, Logger: config.Logger, Metrics: config.Metrics,
	})
	j, err := journal.Open(config.Folder, journal.Options{Logger: config.Logger, Outstanding: p.Outstanding(), Disk: config.disk, Notes: config.Notes, Seen: config.seen()})
	if err != nil {
		return nil, err
	}

	cuts := pipeline.NewKeptCuts(p, j, config.Logger)
	c := &Collector{config: config, pipeline: p, journal: j, cuts: cuts, known: files.NewLogs(p, j, cuts), logs: topics.NewLogs(j, cuts), kept: ordered.NewKept(j, cuts)}
	c.Reload(config.Rules, config.Client) // the rules are stored before any cut is made by them
	if err := c.openSources(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Reload replaces the rules and the trusted proxies, from each stream's next cut on.
func (c *Collector) Reload(set *rule.Set, client *request.Client) { c.pipeline.SetRules(set, client) }

func (c *Collector) openSources() error {
	for i := range c.config.Sources {
		config := &c.config.Sources[i]
		in, err := c.pipeline.NewIntake(config.IntakeConfig)
		if err != nil {
			return err
		}
		in.Remember(c.journal.ID, c.journal.Seen(config.Name))
		s, err := c.open(in, config)
		if err != nil {
			return fmt.Errorf("source %s: %w", config.Name, err)
		}
		c.intakes, c.sources = append(c.intakes, in), append(c.sources, s)
	}
	return nil
}

// open makes a source.
func (c *Collector) open(in *pipeline.Intake, config *SourceConfig) (pipeline.Source, error) {
	switch {
	case config.File != nil:
		return files.New(in, c.known, *config.File)
	case config.Kafka != nil && config.Kafka.Group == "":
		return topics.NewAlone(in, c.logs, *config.Kafka)
	case config.Kafka != nil:
		return topics.New(in, *config.Kafka)
	case config.Ordered != nil:
		return ordered.New(in, c.kept, *config.Ordered)
	case config.Pipe != nil:
		return listeners.NewPipe(in, *config.Pipe)
	case config.HTTP != nil:
		return listeners.NewHTTP(in, *config.HTTP)
	case config.Syslog != nil:
		return listeners.NewSyslog(in, *config.Syslog)
	}
	return nil, errors.New("a source has no kind")
}

// Close writes the changes that the journal has queued, and unlocks the folder. Call it after Run has returned.
func (c *Collector) Close() error { return c.journal.Close() }

// Run sends the outstanding cuts, then reads all sources until the context is done. It returns nil once all that was
// read is in Kafka or in the journal, and an error only for a problem that a retry cannot solve.
func (c *Collector) Run(ctx context.Context) error {
	if err := c.cuts.Resend(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, s := range c.sources {
		s.Announce() // before any of them reads
	}

	faults := make([]error, len(c.sources))
	var running sync.WaitGroup
	for i := range c.sources {
		running.Go(func() {
			if faults[i] = c.runSource(ctx, i); faults[i] != nil {
				cancel()
			}
		})
	}

	running.Wait()
	return errors.Join(faults...)
}

// runSource runs one source, and starts it again after a panic.
func (c *Collector) runSource(ctx context.Context, i int) error {
	in, s, config := c.intakes[i], c.sources[i], &c.config.Sources[i]
	return in.Outlive(ctx, "source "+config.Name, func() error { return s.Run(ctx) }, func() error {
		if config.Syslog != nil || config.Pipe != nil { // keep the records that wait in its inbox
			return nil
		}
		var err error
		if s, err = c.open(in, config); err != nil {
			return err
		}

		c.mu.Lock()
		c.sources[i] = s
		c.mu.Unlock()
		s.Announce()
		return nil
	})
}

// Status is the state of a collector.
type Status struct {
	Collector   string                  `json:"collector"`   // its id
	Rules       string                  `json:"rules"`       // their hash
	Outstanding int                     `json:"outstanding"` // cuts in the file journal
	CaughtUp    bool                    `json:"caught_up"`
	Error       string                  `json:"error,omitempty"` // of the journal
	Sources     []pipeline.SourceStatus `json:"sources"`
}

// Status may be called at any time.
func (c *Collector) Status() Status {
	status := Status{Collector: c.journal.ID, Rules: c.pipeline.Fingerprint(), CaughtUp: true, Sources: []pipeline.SourceStatus{}}
	status.Outstanding, status.Error = c.journal.Status()
	c.mu.Lock()
	sources := slices.Clone(c.sources)
	c.mu.Unlock()
	for _, s := range sources {
		one := s.Status()
		status.CaughtUp = status.CaughtUp && one.CaughtUp
		status.Sources = append(status.Sources, one)
	}
	return status
}
