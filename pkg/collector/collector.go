// Package collector reads requests from where they are and sends what the rules count of them to Kafka, once.
//
// A source (files, topics, an HTTP or a syslog listener) brings the records of its logs; each log has a stream, which
// parses them, judges them by the rules, packs the hits into one batch a partition, and cuts: a cut is what was read
// from one position to another and the batches that came of it. A cut is noted in a journal before it is sent, and
// what was noted is what is sent, after a crash too; whoever counts the hits skips the batches it has counted before
// (hit.Positions). So every request of a source that can be replayed is counted exactly once, whatever is killed.
//
// What always holds. A log's position never goes back, unless its journal does: then what is sent overlaps what was
// counted, which is told here and told as a conflict where it is counted, and never skipped silently. The batches of
// a log reach each partition in the log's order. Every record that gives no hit is counted by why. Time is the
// request's; our clock is only asked what is ahead of it, and the cut keeps what it said.
//
// Bounds. A stream has at most 64 cuts and 8 MiB in flight; then it waits, and its source with it: files wait to be
// read, HTTP answers 429, UDP drops and counts. While the journal cannot be written (a full disk) or Kafka is away
// nothing is read and nothing is lost.
//
// One goroutine per log reads, parses, judges and packs; one writes the file journal; the producer has its own. Run
// starts them and waits for them. A folder is one collector's: it is locked.
//
// Not done here: counting, and sending to anything but one topic.
package collector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/kafka"
	"weir/pkg/request"
	"weir/pkg/rule"
)

// drainPatience is how long sources may take to have Kafka acknowledge what they have read, at the end.
const drainPatience = 5 * time.Second

// Config says what to collect and where to.
type Config struct {
	Folder     string // of the journal; made when missing
	Sources    []SourceConfig
	Rules      *rule.Set
	Client     *request.Client // nil: the client is who the log names
	Late       time.Duration   // how far a source may be ahead of the others when they are read from behind
	Ahead      time.Duration   // how far ahead of our clock a request may be
	Sink       Sink
	Partitions int           // of the sink
	Retention  time.Duration // of the sink's log: what is older is never sent again; 0 is for ever

	Logger  *slog.Logger          // nil is silence
	Metrics prometheus.Registerer // nil is none

	disk         disk          // of the journal; the zero value is the real one
	restartAfter time.Duration // a panic; 0 is restartAfter
}

// A Sink takes batches: a kafka.Producer. Send takes all messages in their order, or none with an error; it waits
// while there is no room. Each message's Done is called once it is settled, in a partition's order.
type Sink interface {
	Send(ctx context.Context, messages ...kafka.Message) error
}

// A Collector is one process's.
type Collector struct {
	config  Config
	metrics *metrics
	ruling  atomic.Pointer[ruling]
	folder  *folder
	journal *fileJournal
	known   *knownLogs
	kept    rulesKept
	hold    *hold
	writers writers
	intakes []*intake

	mu      sync.Mutex // guards the elements of sources, by intake
	sources []source
}

// Open locks the folder and reads its journal. Close gives it back.
func Open(config Config) (*Collector, error) {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Collector{config: config, metrics: newMetrics(config.Metrics), hold: newHold(config.Logger)}
	var err error
	if c.folder, err = lockFolder(config.Folder); err != nil {
		return nil, err
	}
	if config.disk.write != nil {
		c.folder.disk = config.disk
	}

	c.kept = rulesKept{c.folder.in("rules")}
	c.Reload(config.Rules, config.Client)
	if c.journal, err = openJournal(c.folder, config.Logger, c.metrics.outstanding); err != nil {
		c.folder.unlock()
		return nil, err
	}

	c.known = newKnownLogs(c.journal)
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
	return nil, errors.New("it does not say where to read")
}

// Close writes what the journal has yet to write, and unlocks the folder. It is called after Run has returned.
func (c *Collector) Close() error {
	err := c.journal.close()
	c.folder.unlock()
	return err
}

// Run sends what is outstanding, then reads all sources until the context is done, and returns nil when what was read
// is in Kafka or in the journal. It returns an error only for what retrying cannot mend.
func (c *Collector) Run(ctx context.Context) error {
	if err := c.journal.resend(ctx, c.config.Sink, c.config.Retention); err != nil {
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

// runSource runs one source, and again when it has panicked.
func (c *Collector) runSource(ctx context.Context, i int) error {
	in := c.intakes[i]
	s := c.sources[i]
	return in.outlive(ctx, "source "+in.config.Name, func() error { return s.run(ctx) }, func() error {
		if _, same := s.(*syslogSource); same { // what waits in its inbox is kept
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

// Status is how a collector stands.
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
	status := Status{Collector: c.journal.id, Rules: c.ruling.Load().fingerprint, CaughtUp: true, Sources: []SourceStatus{}}
	status.Outstanding, status.Error = c.journal.status()
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
