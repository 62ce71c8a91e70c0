// Package collector reads requests from their sources and sends the hits that the rules count to Kafka, exactly once.
//
// A source (files, topics, an HTTP or a syslog listener) brings the records of its logs. Each log has a stream, which
// parses the records, judges them by the rules, packs the hits into one batch per partition, and cuts. A cut is the
// part of the log between two positions and the batches made from it. The journal notes a cut before the stream sends
// it, and sends the noted bytes again after a crash. The aggregator skips batches that it has already counted
// (hit.Positions). So every request of a source that can be replayed is counted exactly once, whichever process is
// killed.
//
// What always holds. A log's position never goes back, unless its journal does: then the batches sent overlap those
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
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/kafka"
	"weir/pkg/collector/journal"
	"weir/pkg/collector/pace"
	"weir/pkg/request"
	"weir/pkg/rule"
)

// partsBytes is the memory that lines in parts (docker, cri) may use in all streams together, besides 128 KiB each.
const partsBytes = 64 << 20

// drainPatience is how long a source waits at its end for Kafka to acknowledge the hits that it has sent.
const drainPatience = 5 * time.Second

// Config describes the sources, the rules and the destination of a collector.
type Config struct {
	Folder     string // of the journal; made when missing
	Sources    []SourceConfig
	Rules      *rule.Set
	Client     *request.Client // nil: the client is the one that the log names
	Late       time.Duration   // how far a source may be ahead of the others when they are read from behind
	Ahead      time.Duration   // how far ahead of our clock a request may be
	Sink       Sink
	Partitions int           // of the sink
	Retention  time.Duration // of the sink's log: older cuts are never sent again; 0 is unlimited

	Logger  *slog.Logger          // nil is silence
	Metrics prometheus.Registerer // nil is none

	disk         journal.Disk  // of the journal; the zero value is the real one
	restartAfter time.Duration // a panic; 0 is restartAfter
}

// A Sink takes batches: a kafka.Producer. Send takes all messages in their order, or none with an error; it waits
// while there is no room. Each message's Done is called once it is settled, in a partition's order.
type Sink interface {
	Send(ctx context.Context, messages ...kafka.Message) error
}

// A Collector runs the sources of one process.
type Collector struct {
	config  Config
	metrics *metrics
	ruling  atomic.Pointer[ruling]
	journal *journal.Journal
	cuts    *fileCuts
	known   *knownLogs
	kept    rulesKept
	hold    *pace.Group
	writers writers
	parts   *request.Memory // of lines in parts
	intakes []*intake

	mu      sync.Mutex // guards the elements of sources, by intake
	sources []source
}

// Open locks the folder and reads its journal. Close unlocks it.
func Open(config Config) (*Collector, error) {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Collector{config: config, metrics: newMetrics(config.Metrics), hold: pace.New(config.Logger, time.Now), parts: request.NewMemory(partsBytes)}
	var err error
	c.journal, err = journal.Open(config.Folder, journal.Options{Logger: config.Logger, Outstanding: c.metrics.outstanding, Disk: config.disk})
	if err != nil {
		return nil, err
	}

	// The rules are stored before any cut is made by them.
	c.kept = rulesKept{filepath.Join(config.Folder, "rules")}
	c.Reload(config.Rules, config.Client)
	c.cuts = newFileCuts(c.journal, config.Sink, config.Logger)
	c.known = newKnownLogs(c.journal, c.cuts)
	if err := c.openSources(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Collector) openSources() error {
	for _, config := range c.config.Sources {
		in, err := c.newIntake(config)
		if err != nil {
			return err
		}
		s, err := in.open()
		if err != nil {
			return fmt.Errorf("source %s: %w", config.Name, err)
		}
		c.intakes, c.sources = append(c.intakes, in), append(c.sources, s)
	}
	return nil
}

// open makes the source of an intake.
func (in *intake) open() (source, error) {
	switch {
	case in.config.File != nil:
		return newFileSource(in)
	case in.config.Kafka != nil:
		return newKafkaSource(in)
	case in.config.HTTP != nil:
		return newHTTPSource(in)
	case in.config.Syslog != nil:
		return newSyslogSource(in)
	}
	return nil, errors.New("one of file, kafka, http and syslog is needed")
}

// Close writes the changes that the journal has queued, and unlocks the folder. Call it after Run has returned.
func (c *Collector) Close() error { return c.journal.Close() }

// Run sends the outstanding cuts, then reads all sources until the context is done. It returns nil once all that was
// read is in Kafka or in the journal, and an error only for a problem that a retry cannot solve.
func (c *Collector) Run(ctx context.Context) error {
	if err := c.cuts.resend(ctx, c.config.Retention); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, s := range c.sources {
		announce(s) // before any of them reads
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
	in := c.intakes[i]
	s := c.sources[i]
	return in.outlive(ctx, "source "+in.config.Name, func() error { return s.run(ctx) }, func() error {
		if _, same := s.(*syslogSource); same { // keep the records that wait in its inbox
			return nil
		}
		var err error
		if s, err = in.open(); err != nil {
			return err
		}

		c.mu.Lock()
		c.sources[i] = s
		c.mu.Unlock()
		announce(s)
		return nil
	})
}

// announce makes others wait for a source that has yet to find its logs.
func announce(s source) {
	if finding, ok := s.(interface{ announce() }); ok {
		finding.announce()
	}
}

// draining is a context for the end of a source.
func draining(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.WithoutCancel(ctx), drainPatience, errUndrained)
}

var errUndrained = errors.New("kafka did not acknowledge in time; the journal has the rest")

// Status is the state of a collector.
type Status struct {
	Collector   string         `json:"collector"`   // its id
	Rules       string         `json:"rules"`       // their hash
	Outstanding int            `json:"outstanding"` // cuts in the file journal
	CaughtUp    bool           `json:"caught_up"`
	Error       string         `json:"error,omitempty"` // of the journal
	Sources     []SourceStatus `json:"sources"`
}

// Status may be called at any time.
func (c *Collector) Status() Status {
	status := Status{Collector: c.journal.ID, Rules: c.ruling.Load().fingerprint, CaughtUp: true, Sources: []SourceStatus{}}
	status.Outstanding, status.Error = c.journal.Status()
	c.mu.Lock()
	sources := slices.Clone(c.sources)
	c.mu.Unlock()
	for _, s := range sources {
		one := s.status()
		status.CaughtUp = status.CaughtUp && one.CaughtUp
		status.Sources = append(status.Sources, one)
	}
	return status
}
