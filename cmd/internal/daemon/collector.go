package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"time"

	"weir/cmd/internal/config"
	"weir/cmd/internal/exit"
	"weir/internal/kafka"
	"weir/internal/topic"
	"weir/pkg/collector"
	"weir/pkg/collector/ends"
	"weir/pkg/collector/files"
	"weir/pkg/collector/journal"
	"weir/pkg/collector/listeners"
	"weir/pkg/collector/pipeline"
	"weir/pkg/collector/topics"
	"weir/pkg/request"
)

// Collector is the part that reads requests.
var Collector = Part{
	Name:  "collector",
	About: "reads requests from log files, topics, streams, HTTP and syslog, and sends those that the rules count to Kafka.",
	Admin: func(c *config.Config) (address, keys string) { return c.Collector.Listen, c.Collector.Keys },
	Open: func(ctx context.Context, p *Process) (Running, error) {
		if len(p.Config.Collector.Sources) == 0 && p.Config.RefusalsSource() == nil {
			return nil, exit.Wrong(errNoSources)
		}
		names := []string{HitsTopic(p.Config).Name}
		if p.Config.RefusalsSource() != nil {
			names = append(names, AttemptsTopic(p.Config).Name)
		}
		client, err := p.openLog(names...)
		if err != nil {
			return nil, exit.Wrongf("kafka: %w", err)
		}
		c, err := OpenCollector(ctx, p, client)
		if err != nil {
			client.Close()
			return nil, err
		}
		c.closeAlso = client.Close
		return c, nil
	},
}

var errNoSources = errors.New("the configuration has no sources, so no requests are read; add collector: {sources: [{file: /var/log/nginx/access.log}]}")

// queueBytes is how much a producer queues at most.
const queueBytes = 64 << 20

// closePatience is how long a producer may take at the end to write its queue. The journal keeps what it did not write.
const closePatience = 5 * time.Second

// A RunningCollector is an open collector and the producer that it sends to.
type RunningCollector struct {
	*collector.Collector
	producer  topic.Appender
	notes     journal.Notes                 // nil with Kafka
	clients   []*kafka.Client               // of its kafka sources
	senders   map[string]*listeners.Senders // of syslog sources, by name
	closeAlso func()
	folder    *keptFile // of the collector
	proving   proving
	ends      *ends.Sender // nil without an enforcer to report to
}

// OpenCollector makes the collector that the configuration describes. It sends hits with the given client.
func OpenCollector(ctx context.Context, p *Process, client topic.Log) (*RunningCollector, error) {
	if p.Config.RuleSet == nil {
		return nil, exit.Wrong(errNoRules)
	}
	hits, needed := HitsTopic(p.Config), []topic.Topic{HitsTopic(p.Config)}
	if p.Config.RefusalsSource() != nil {
		needed = append(needed, AttemptsTopic(p.Config))
	}
	if err := p.EnsureTopics(ctx, client, needed...); err != nil {
		return nil, err
	}

	r := &RunningCollector{senders: map[string]*listeners.Senders{}, closeAlso: func() {}}
	to := topic.AppenderConfig{Topic: hits.Name, Partitions: hits.Partitions, QueueBytes: queueBytes}
	if p.Local != nil {
		appender := p.Local.NewAppender(to)
		r.producer, r.notes = appender, localNotes{p.Local.Log, appender, p.Config.Store.Redis != ""}
	} else {
		r.producer = client.Appender(to)
	}
	p.queue("hits", queueBytes, func() float64 { return float64(r.producer.Held()) })
	settings, err := r.settings(p)
	if err == nil {
		err = r.proving.openRing(p)
	}
	if err == nil {
		r.ends, err = p.openEnds()
	}
	if err == nil {
		settings.Evidence = r.proving.ring
		if r.ends != nil {
			settings.Ended = r.ends.Put
		}
		r.Collector, err = collector.Open(settings)
	}

	// The sources of Kafka that were opened before the error have clients that must be closed, too.
	if err != nil {
		r.closeRest()
		return nil, err
	}

	r.proving.openWitness(p, r.Collector.Status().Collector)
	const remedy = "stop the collector, put the folder back (or accept that files begin at their start setting), and start it again"
	r.folder = p.keeps(false, remedy, settings.Folder, "lock")
	return r, nil
}

func (r *RunningCollector) settings(p *Process) (collector.Config, error) {
	c := p.Config
	trusted, err := client(c)
	if err != nil {
		return collector.Config{}, err
	}

	settings := collector.Config{
		Folder: filepath.Join(c.Data, "collector"), Rules: c.RuleSet, Client: trusted, Sink: r.producer, Notes: r.notes, Partitions: c.Kafka.Hits.Partitions,
		Late: c.ApartAtMost(), Ahead: time.Duration(c.Time.Ahead), Retention: time.Duration(c.Kafka.Hits.Retention),
		Batch:  time.Duration(c.Collector.Batch),
		Logger: p.Logger, Metrics: p.Metrics,
	}

	if s := c.RefusalsSource(); s != nil {
		refusals, err := r.source(p, s)
		if err != nil {
			return settings, err
		}
		refusals.Refusals = true
		settings.Sources = append(settings.Sources, refusals)
	}
	if len(c.Collector.Sources) == 0 && c.RefusalsSource() == nil { // of weir run: the other parts work all the same
		p.Logger.Warn(errNoSources.Error())
	}
	for i := range c.Collector.Sources {
		s, err := r.source(p, &c.Collector.Sources[i])
		if err != nil {
			return settings, fmt.Errorf("collector.sources: %s: %w", c.Collector.Sources[i].Name, err)
		}
		settings.Sources = append(settings.Sources, s)
	}

	return settings, nil
}

// source makes the configuration of one source.
func (r *RunningCollector) source(p *Process, s *config.Source) (collector.SourceConfig, error) {
	of := collector.SourceConfig{IntakeConfig: pipeline.IntakeConfig{
		Name: s.Name, Envelope: s.Envelope, Format: s.Format, Late: time.Duration(s.Late),
		Options: request.Options{Zone: s.Zone.Location, Fields: s.LineFields(), Line: s.LineKey(), Header: p.Config.Client.Header, Stderr: s.NamesStream()},
		Dedupe:  pipeline.Dedupe{By: s.Dedupe.By, Within: time.Duration(s.Dedupe.Within), Most: s.Dedupe.Values},
	}}

	var err error
	outer, headers := s.HeaderFields()
	of.Outer = outer
	if of.Only, err = s.Wanted(); err != nil {
		return of, err
	}

	start := pipeline.Start{Latest: s.Start.Latest, Before: s.Start.Before}
	switch s.Kind() {
	case "file":
		if s.Pipe() {
			of.Pipe = &listeners.PipeConfig{Path: s.File[0]}
		} else {
			of.File = &files.Config{Patterns: s.File, Start: start}
		}
	case "kafka":
		of.Kafka = &topics.Config{Topics: s.Kafka, Without: s.WithoutTopics(p.Config.Kafka.Prefix), Headers: headers, Start: start}
		if !s.Local() {
			of.Kafka.Group = p.Config.CollectorGroup(s)
		}
		of.Kafka.Client, err = r.sourceClient(p, s)
	case "journald":
		of.Ordered = journals(s, start)
	case "redis_stream", "nats", "amqp", "kinesis", "s3", "hdfs":
		of.Ordered, err = streamSource(s, start)
	case "http":
		of.HTTP, err = httpSource(p, s, s.HTTP)
	case "otlp":
		if of.HTTP, err = httpSource(p, s, s.OTLP); err == nil {
			of.HTTP.OTLP = true
		}
	case "loki":
		if of.HTTP, err = httpSource(p, s, s.Loki); err == nil {
			of.HTTP.Loki = true
		}
	case "syslog":
		of.Syslog, err = r.syslogSource(p, s)
	}

	return of, err
}

// sourceClient returns the topics that a source reads. Each source of Kafka has a client of its own, because a client
// knows only its own topics.
func (r *RunningCollector) sourceClient(p *Process, s *config.Source) (topic.Log, error) {
	if p.Local != nil && len(s.Brokers) == 0 {
		return shared{p.Local.Log}, nil
	}
	client, err := kafka.Open(p.SourceConfig(s))
	if err != nil {
		return nil, err
	}
	r.clients = append(r.clients, client)
	return client, nil
}

func httpSource(p *Process, s *config.Source, listen string) (*listeners.HTTPConfig, error) {
	secure, err := p.serverTLS(s.TLS.Server())
	if err != nil {
		return nil, err
	}
	known, err := p.keysOf(s.Keys)
	return &listeners.HTTPConfig{Listen: listen, TLS: secure, Keys: known, Hosts: p.Config.Hosts}, err
}

func (r *RunningCollector) syslogSource(p *Process, s *config.Source) (*listeners.SyslogConfig, error) {
	secure, err := p.serverTLS(s.TLS.Server())
	if err != nil {
		return nil, err
	}

	from, err := prefixes(&s.From)
	if err != nil {
		return nil, err
	}

	of := &listeners.SyslogConfig{Listen: s.Syslog, TLS: secure}
	// An empty list would admit no one; without from everyone on loopback may send.
	if len(s.From.Prefixes)+len(s.From.Files) > 0 {
		of.From = listeners.NewSenders(from)
		r.senders[s.Name] = of.From
	}

	return of, nil
}

// client returns the part that finds a request's client behind trusted proxies.
func client(c *config.Config) (*request.Client, error) {
	trusted, err := prefixes(&c.Client.TrustedProxies)
	if err != nil {
		return nil, err
	}
	return request.NewClient(trusted), nil
}

// Status returns the collector's status. A collector whose folder is lost has not caught up, because it cannot store its
// position.
func (r *RunningCollector) Status() any {
	s := r.Collector.Status()
	if why := r.folder.lost.Load(); why != nil {
		s.CaughtUp, s.Error = false, *why
	}

	return s
}

// Reload applies new rules, trusted proxies and senders of syslog.
func (r *RunningCollector) Reload(c *config.Config) error {
	trusted, err := client(c)
	if err != nil {
		return err
	}

	// All are read before any is set: after an error everything stays as it was.
	from := make([][]netip.Prefix, len(c.Collector.Sources))
	for i := range c.Collector.Sources {
		if from[i], err = prefixes(&c.Collector.Sources[i].From); err != nil {
			return err
		}
	}
	for i := range c.Collector.Sources {
		if senders := r.senders[c.Collector.Sources[i].Name]; senders != nil {
			senders.Set(from[i])
		}
	}

	r.proving.rules.Store(c.RuleSet)
	r.Collector.Reload(c.RuleSet, trusted)
	return nil
}

// readable returns the error of a file of prefixes that a reload reads.
func readable(c *config.Config) error {
	_, err := prefixes(&c.Client.TrustedProxies)
	errs := []error{err}
	for i := range c.Collector.Sources {
		_, err := prefixes(&c.Collector.Sources[i].From)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Close closes the collector, its producer and its clients.
func (r *RunningCollector) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()

	// The producer before the collector: the journal still takes what it acknowledges now.
	err := r.producer.Close(ctx)
	if errors.Is(err, topic.ErrClosed) {
		err = nil // the journal has the rest
	}
	err = errors.Join(err, r.Collector.Close())
	r.closeRest()
	return err
}

func (r *RunningCollector) closeRest() {
	_ = r.producer.Close(canceled()) // the journal has what it could not write
	for _, client := range r.clients {
		client.Close()
	}
	r.proving.close()
	r.closeAlso()
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
