package offline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/cmd/internal/config"
	"weir/cmd/internal/daemon"
	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/command"
	"weir/internal/kafka"
	"weir/internal/topic"
	"weir/pkg/backtest"
)

const topicScheme = "kafka://"

// A topicInput is a topic as an argument names it: kafka://BROKERS/TOPIC?from=TIME&to=TIME.
type topicInput struct {
	text     string
	brokers  []string // none: as the configuration has them
	topic    string
	from, to time.Time // of records; zero for all
}

func parseTopic(text string, now time.Time) (t topicInput, err error) {
	const form = "write kafka://HOST:PORT/TOPIC, or kafka:///TOPIC for the brokers of weir.yaml, with ?from=TIME&to=TIME if you like"
	// The brokers are a list, which no URL has: they are cut out of it first.
	rest, _ := strings.CutPrefix(text, topicScheme)
	brokers, path, ok := strings.Cut(rest, "/")
	u, err := url.Parse(path)
	if !ok || err != nil || u.Path == "" || strings.Contains(u.Path, "/") || strings.Contains(brokers, "@") {
		return t, exit.Wrongf("%s names no topic; %s", text, form)
	}
	t = topicInput{text: text, topic: u.Path}
	if brokers != "" {
		t.brokers = strings.Split(brokers, ",")
	}

	return t, parseTimes(text, u.RawQuery, form, now, map[string]*time.Time{"from": &t.from, "to": &t.to})
}

// parseTimes reads the times behind the question mark of an argument.
func parseTimes(text, query, form string, now time.Time, times map[string]*time.Time) error {
	given, err := url.ParseQuery(query)
	if err != nil {
		return exit.Wrongf("%s: %v; %s", text, err, form)
	}
	for key, values := range given {
		to := times[key]
		if to == nil || len(values) > 1 {
			return exit.Wrongf("%s: %s is not known, or given twice; %s", text, key, form)
		}
		if *to, err = command.Time(values[0], now); err != nil {
			return exit.Wrongf("%s: %s: %w", text, key, err)
		}
	}
	return nil
}

// client opens the Kafka that has the topic: the one that is named, without a login, or that of the configuration.
func (t *topicInput) client(settings *config.Config) (*kafka.Client, error) {
	logger, metrics := slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	to := kafka.Config{Brokers: t.brokers, Topics: []string{t.topic}, Logger: logger, Metrics: metrics}
	if len(t.brokers) == 0 {
		if settings == nil {
			return nil, exit.Wrongf("%s names no brokers, and there is no weir.yaml that does; write kafka://HOST:PORT/%s, or name it by --config", t.text, t.topic)
		}
		process := &daemon.Process{Config: settings, Logger: logger, Metrics: metrics}
		to = process.KafkaConfig(t.topic)
		if source := sourceOfTopic(settings.Collector.Sources, t.topic); source != nil {
			to = process.SourceConfig(source)
		}
		if len(to.Brokers) == 0 {
			return nil, exit.Wrongf("%s names no brokers, and neither does %s; write kafka://HOST:PORT/%s", t.text, settings.File, t.topic)
		}
	}
	to.Create = false
	return kafka.Open(to)
}

// sourceOfTopic returns the first source that reads a topic, or nil.
func sourceOfTopic(sources []config.Source, topic string) *config.Source {
	if i := slices.IndexFunc(sources, func(s config.Source) bool { return s.ReadsTopic(topic) }); i >= 0 {
		return &sources[i]
	}
	return nil
}

// inputs are the partitions of the topic, each from its first record to the last one that it has now. End has to be
// called at the end.
func (t *topicInput) inputs(ctx context.Context, settings *config.Config) (all []backtest.Input, end func(), err error) {
	if settings != nil {
		if source := sourceOfTopic(settings.Collector.Sources, t.topic); source != nil {
			if ours, _ := source.HeaderFields(); len(ours) > 0 {
				return nil, nil, exit.Wrongf("%s: the source %s takes fields from headers of records (%s), which a backtest does not read", t.text, source.Name, strings.Join(ours, ", "))
			}
		}
	}
	client, err := t.client(settings)
	if err != nil {
		return nil, nil, err
	}
	spans, err := client.Offsets(ctx, t.topic)
	for partition, span := range spans {
		if err == nil && !t.from.IsZero() {
			span.Start, err = client.OffsetAt(ctx, t.topic, partition, t.from)
		}
		if err == nil && !t.to.IsZero() {
			var to int64
			to, err = client.OffsetAt(ctx, t.topic, partition, t.to)
			span.End = min(span.End, to)
		}
		if span.Start < span.End {
			name := fmt.Sprintf("%s/%d", t.topic, partition)
			all = append(all, backtest.Input{Path: name, Reader: &partitionLines{ctx: ctx, reader: client.Reader(t.topic, partition, span.Start, answerBytes), end: span.End}, Records: true})
		}
	}
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("topic %s has no records%s", t.topic, map[bool]string{true: " at that time"}[!t.from.IsZero() || !t.to.IsZero()])
	}
	if err != nil {
		client.Close()
		return nil, nil, err
	}
	return all, client.Close, nil
}

const (
	answerBytes = 1 << 20
	patience    = 15 * time.Second // while brokers do not answer
)

// partitionLines reads the records of a partition as lines, up to an offset.
type partitionLines struct {
	ctx    context.Context
	reader topic.Reader
	end    int64
	text   []byte // lines that were not read
	lines  []byte // memory for them
	failed time.Time
}

func (p *partitionLines) Read(b []byte) (int, error) {
	for len(p.text) == 0 {
		if p.reader.Next() >= p.end {
			return 0, io.EOF
		}
		if err := p.fetch(); err != nil {
			return 0, err
		}
	}
	n := copy(b, p.text)
	p.text = p.text[n:]
	return n, nil
}

// fetch makes lines of the next records.
func (p *partitionLines) fetch() error {
	records, err := p.reader.Fetch(p.ctx)
	switch {
	case p.ctx.Err() != nil:
		return p.ctx.Err()
	case errors.Is(err, topic.ErrTrimmed), errors.Is(err, topic.ErrPastEnd):
		return fmt.Errorf("%w: its records were deleted while they were read; name a later time with from", err)
	case err != nil:
		p.failed = cmp.Or(p.failed, time.Now())
		if time.Since(p.failed) > patience {
			return err
		}
		return nil // it has paused
	}

	p.failed = time.Time{}
	p.lines = p.lines[:0]
	for i := range records {
		if records[i].Offset < p.end && records[i].Value != nil {
			p.lines = backtest.AppendRecord(p.lines, records[i].Value)
		}
	}
	p.text = p.lines
	return nil
}
