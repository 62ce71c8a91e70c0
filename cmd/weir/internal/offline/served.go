package offline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"weir/cmd/internal/config"
	"weir/cmd/internal/daemon"
	"weir/cmd/internal/exit"
	"weir/internal/sleep"
	"weir/pkg/backtest"
	"weir/pkg/collector/ordered"
)

// A served input is logs that another server keeps, as an argument names them.
type served struct {
	text   string
	source config.Source
	from   time.Time // by the server's times; zero for all
	to     time.Time // by those of the requests: what another server has is not always in the order of its own times
}

const servedForm = "write source:NAME for a source of weir.yaml, s3://BUCKET/PREFIX/, journald:UNIT, redis://HOST:PORT/KEY, nats://HOST:PORT/STREAM, amqp://HOST:PORT/QUEUE, kinesis://REGION/STREAM or hdfs://HOST:PORT/PATH, with ?from=TIME&to=TIME if you like"

var servedSchemes = []string{"source", "s3", "journald", "redis", "nats", "amqp", "kinesis", "hdfs"}

func isServed(text string) bool {
	scheme, _, ok := strings.Cut(text, ":")
	return ok && slices.Contains(servedSchemes, scheme)
}

func parseServed(text string, now time.Time, settings *config.Config) (s served, err error) {
	s.text = text
	place, query, _ := strings.Cut(text, "?")
	if s.source, err = servedSource(place, settings); err != nil {
		return s, err
	}
	return s, parseTimes(text, query, servedForm, now, map[string]*time.Time{"from": &s.from, "to": &s.to})
}

// servedSource is the source that reads a place: that of the configuration, or one without a login.
func servedSource(place string, settings *config.Config) (config.Source, error) {
	if settings != nil {
		if i := slices.IndexFunc(settings.Collector.Sources, func(s config.Source) bool { return servedBy(place, &s) }); i >= 0 {
			s := settings.Collector.Sources[i]
			s.SQS = "" // nothing is taken out of a queue
			return s, nil
		}
	}
	s := config.Source{Delay: config.DefaultDelay}
	scheme, rest, _ := strings.Cut(place, ":")
	if strings.Contains(place, "@") {
		return s, exit.Wrongf("an argument contains a login, which others can see; write source:NAME for a source of weir.yaml, which names files")
	}
	u, err := url.Parse(place)
	named := err == nil && u.Host != "" && len(u.Path) > 1
	name := ""
	if named {
		name = u.Path[1:]
	}
	switch {
	case scheme == "source" && settings == nil:
		return s, exit.Wrongf("%s is a source of a configuration, and there is no weir.yaml; name it by --config", place)
	case scheme == "source" && slices.ContainsFunc(settings.Collector.Sources, func(s config.Source) bool { return s.Name == rest && s.AMQP.Acknowledge }):
		return s, exit.Wrongf("the source %s takes messages out of a queue, and a backtest must not: backtest the log that was sent there", rest)
	case scheme == "source":
		return s, exit.Wrongf("%s has no source of the name %q that another server keeps", settings.File, rest)
	case scheme == "s3":
		s.S3 = place
	case scheme == "journald" && rest != "":
		s.Journald.Unit = config.Texts{rest}
	case scheme == "redis" && named:
		s.RedisStream = config.RedisStream{URL: "redis://" + u.Host, Keys: config.Texts{name}}
	case scheme == "nats" && named:
		s.NATS = config.NATS{URL: "nats://" + u.Host, Stream: name}
	case scheme == "amqp" && named:
		s.AMQP = config.AMQP{URL: "amqp://" + u.Host, Queue: name}
	case scheme == "hdfs" && named:
		s.HDFS = config.HDFS{URL: config.Texts{"http://" + u.Host}, Path: u.Path, Open: true}
	case scheme == "kinesis" && named:
		s.Kinesis = config.Kinesis{Stream: name, Region: u.Host}
	default:
		return s, exit.Wrongf("%s names no log; %s", place, servedForm)
	}
	return s, nil
}

// servedBy reports whether a source of the configuration is the one that an argument names.
func servedBy(text string, s *config.Source) bool {
	place, _, _ := strings.Cut(text, "?")
	name, byName := strings.CutPrefix(place, "source:")
	return byName && s.Name == name && daemon.HasStreams(s) || s.S3 != "" && s.S3 == place
}

// inputs are the logs, each from its first entry to the last one that it has now. end has to be called at the end.
func (s *served) inputs(ctx context.Context) (all []backtest.Input, end func(), err error) {
	logs, err := daemon.OpenStreams(ctx, &s.source)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", s.text, err)
	}
	end = func() {
		for _, log := range logs {
			log.Close()
		}
	}
	for _, log := range logs {
		lines := &entryLines{ctx: ctx, log: log, records: s.source.Kind() != "s3" && s.source.Kind() != "hdfs"}
		if err = lines.begin(s.from); err != nil {
			break
		}
		all = append(all, backtest.Input{Path: log.String(), Reader: lines, Records: lines.records, Before: s.to})
	}
	if err == nil && len(all) == 0 {
		err = errors.New("there is no such log")
	}
	if err != nil {
		end()
		return nil, nil, fmt.Errorf("%s: %w", s.text, err)
	}
	return all, end, nil
}

// entryLines reads the entries of a log as lines, up to those that it had at the beginning. Of objects, those that come
// meanwhile are read too.
type entryLines struct {
	ctx    context.Context
	log    ordered.Log
	at     ordered.Place
	last   int64  // the position of the last entry; 0 where the log does not know
	text   []byte // lines that were not read
	lines  []byte // memory for them
	failed time.Time

	records bool     // entries are records, not lines
	missed  []string // why objects are not read
	trouble error    // why some cannot be read now
	deleted int64    // entries that were deleted meanwhile
}

func (e *entryLines) begin(from time.Time) error {
	extent, err := e.log.Extent(e.ctx, nil)
	if errors.Is(err, ordered.ErrMissing) {
		return errors.New("it does not exist")
	}
	if err != nil {
		return err
	}
	e.at, e.last = extent.First, extent.Last.Position
	if !from.IsZero() {
		if e.at, err = e.log.Since(e.ctx, from); err != nil {
			return err
		}
	}
	if log, ok := e.log.(ordered.Remembering); ok {
		log.Remember(&ordered.Memory{})
	}
	return nil
}

func (e *entryLines) Read(b []byte) (int, error) {
	for len(e.text) == 0 {
		if e.last > 0 && e.at.Position >= e.last {
			return 0, e.end()
		}
		if err := e.fetch(); err != nil {
			return 0, err
		}
	}
	n := copy(b, e.text)
	e.text = e.text[n:]
	return n, nil
}

// end is io.EOF, or what was not read.
func (e *entryLines) end() error {
	if e.deleted > 0 {
		e.missed = append(e.missed, fmt.Sprintf("%d entries were deleted while they were read", e.deleted))
	}
	if e.trouble != nil {
		e.missed = append(e.missed, e.trouble.Error())
	}
	if len(e.missed) > 0 {
		return errors.New(strings.Join(e.missed, "; "))
	}
	return io.EOF
}

// fetch makes lines of the next entries.
func (e *entryLines) fetch() error {
	page, err := e.log.Read(e.ctx, e.at)
	switch {
	case e.ctx.Err() != nil:
		return e.ctx.Err()
	case errors.Is(err, ordered.ErrOther), errors.Is(err, ordered.ErrMissing):
		return errors.New("it was deleted while it was read")
	case err != nil:
		e.failed = cmp.Or(e.failed, time.Now())
		if time.Since(e.failed) > patience {
			return err
		}
		sleep.For(e.ctx, time.Second)
		return nil
	}

	e.failed = time.Time{}
	e.deleted += page.Lost
	e.trouble = page.Trouble
	if page.Missed > 0 && len(e.missed) < missedMost {
		e.missed = append(e.missed, page.Why)
	}
	e.lines = e.lines[:0]
	for i := range page.Entries {
		switch entry := &page.Entries[i]; {
		case e.last > 0 && entry.After.Position > e.last: // it came meanwhile
		case e.records:
			e.lines = backtest.AppendRecord(e.lines, entry.Value)
		default:
			e.lines = append(append(e.lines, entry.Value...), '\n')
		}
	}
	e.text = e.lines
	e.at = page.End(e.at)
	if len(page.Entries) == 0 && page.Waiting == 0 {
		return e.end()
	}
	return nil
}

const missedMost = 10 // reasons
