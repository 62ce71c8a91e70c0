package topics

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/internal/topic"
	"weir/pkg/collector/journal"
	"weir/pkg/collector/pace"
	"weir/pkg/collector/pipeline"
	"weir/pkg/rule"
	"weir/test/sink"
	"weir/test/wait"
)

// onBoth runs a test on the embedded broker and on a real Kafka.
func onBoth(t *testing.T, test func(*testing.T, kafka.Config)) {
	t.Parallel()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, kafkatest.Embedded(t))
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		test(t, kafka.Config{Brokers: kafkatest.Shared(t).Addresses(), Create: true})
	})
}

var made atomic.Int64

// A sourceConfig describes a source.
type sourceConfig struct {
	pipeline.IntakeConfig
	Kafka *Config
}

// A bench is a topic, and members of one group that read it.
type bench struct {
	t          testing.TB
	config     kafka.Config
	client     *kafka.Client
	topic      string
	partitions int
	producer   *kafka.Producer
	sink       *sink.Memory
	rules      *rule.Set
	source     sourceConfig // without its client
	patience   time.Duration
	sparse     int            // see sparseRecords; 0 is the default
	opened     func(*running) // called before one runs
	folder     string         // of the journal of a source without a group
	settings   map[string]string

	lines int
	want  map[string]int64
}

func newBench(t testing.TB, config kafka.Config, partitions int) *bench {
	t.Helper()
	config.Logger = testLogger(t)
	b := &bench{t: t, config: config, client: kafkatest.Client(t, config), partitions: partitions, sink: sink.New(4), want: map[string]int64{}}
	b.topic = fmt.Sprintf("logs.%d.%d", os.Getpid(), made.Add(1))
	set, err := rule.FromLimits([]string{"10/min"}, "ip")
	if err != nil {
		t.Fatal(err)
	}
	b.rules = set
	b.source = sourceConfig{IntakeConfig: pipeline.IntakeConfig{Name: "logs", Format: "combined"}, Kafka: &Config{Group: "readers." + b.topic, Topics: []string{b.topic}, Session: 6 * time.Second}}
	return b
}

// still is the source, in a pipeline that nothing else uses, and the group of the logs there.
func (b *bench) still() (*source, *pace.Group) {
	b.t.Helper()
	b.source.Kafka.Client = b.client
	group := pace.New(testLogger(b.t), time.Now)
	c := pipeline.New(pipeline.Config{Folder: b.t.TempDir(), Late: time.Minute, Logger: testLogger(b.t), Pace: group, Now: time.Now, Sink: b.sink, Partitions: 4})
	c.SetRules(b.rules, nil)
	in, err := c.NewIntake(b.source.IntakeConfig)
	if err != nil {
		b.t.Fatal(err)
	}
	made, err := New(in, *b.source.Kafka)
	if err != nil {
		b.t.Fatal(err)
	}
	return made.(*source), group
}

// make makes the topic.
func (b *bench) make() {
	b.t.Helper()
	if err := b.client.EnsureTopics(b.within(time.Minute), topic.Topic{Name: b.topic, Partitions: b.partitions, Settings: b.settings}); err != nil {
		b.t.Fatal(err)
	}
	producer := b.client.OpenProducer(topic.AppenderConfig{Topic: b.topic, Partitions: b.partitions})
	b.producer = producer
	b.t.Cleanup(func() { producer.Close(b.within(time.Minute)) })
}

func (b *bench) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.t.Context()), d)
	b.t.Cleanup(cancel)
	return ctx
}

// line returns one more line, whose hit is wanted.
func (b *bench) line() string {
	b.lines++
	ip := fmt.Sprintf("203.0.113.%d", b.lines%7)
	b.want["per-ip "+ip]++
	return fmt.Sprintf(`%s - - [03/Mar/2026:08:%02d:%02d +0000] "GET /%d HTTP/1.1" 200 2 "-" "test"`, ip, b.lines/60%60, b.lines%60, b.lines)
}

// produce writes lines to the topic, round-robin, and returns when it has them.
func (b *bench) produce(lines int) {
	b.t.Helper()
	var messages []topic.Message
	for range lines {
		partition := b.lines % b.partitions
		messages = append(messages, topic.Message{Partition: partition, Value: []byte(b.line())})
	}
	b.write(messages...)
}

// filled is the bench with its topic, which has so many lines.
func (b *bench) filled(lines int) *bench {
	b.t.Helper()
	b.make()
	b.produce(lines)
	return b
}

// read starts a source and waits until it has counted all lines.
func (b *bench) read(change ...func(*reading)) *running {
	b.t.Helper()
	r := b.start(b.sink, change...)
	b.sink.Await(b.t, b.want)
	return r
}

// readMore produces more lines and waits until all are counted.
func (b *bench) readMore(lines int) {
	b.t.Helper()
	b.produce(lines)
	b.sink.Await(b.t, b.want)
}

func (b *bench) write(messages ...topic.Message) {
	b.t.Helper()
	var written sync.WaitGroup
	for i := range messages {
		written.Add(1)
		messages[i].Done = func(_ int64, err error) {
			if err != nil {
				b.t.Error(err)
			}
			written.Done()
		}
	}
	if err := b.producer.Send(b.within(time.Minute), messages...); err != nil {
		b.t.Fatal(err)
	}
	written.Wait()
}

// delete deletes the topic and waits until it is gone.
func (b *bench) delete() {
	b.t.Helper()
	b.producer.Close(b.within(time.Minute))
	admin := kafkago.Client{Addr: kafkago.TCP(b.config.Brokers...), Transport: &kafkago.Transport{}}
	response, err := admin.DeleteTopics(b.within(time.Minute), &kafkago.DeleteTopicsRequest{Topics: []string{b.topic}})
	if err != nil || response.Errors[b.topic] != nil {
		b.t.Fatal(err, response)
	}
	admin.Transport.(*kafkago.Transport).CloseIdleConnections()
	wait.Until(b.t, "the topic to be gone", func() bool {
		_, err := b.client.Partitions(b.within(time.Second), b.topic)
		return err != nil
	})
}

// A reading describes sources that run together.
type reading struct {
	pipeline.Config
	Rules   *rule.Set
	Sources []sourceConfig
}

// A running is sources that run as a collector runs them.
type running struct {
	pipeline *pipeline.Pipeline
	group    *pace.Group
	sources  []pipeline.Source
	journal  *journal.Journal // of a source without a group
	stop     func()
	said     *said
}

// start starts a source with a client and a folder of its own, that writes to a sink.
func (b *bench) start(to pipeline.Sink, change ...func(*reading)) *running {
	b.t.Helper()
	r := &running{said: &said{}}
	from, reader := b.source, b.config
	of := *from.Kafka
	reader.Logger = r.said.logger()
	client, err := kafka.Open(reader)
	if err != nil {
		b.t.Fatal(err)
	}
	of.Client = client
	from.Kafka = &of
	r.group = pace.New(reader.Logger, time.Now)
	config := reading{Rules: b.rules, Sources: []sourceConfig{from}, Config: pipeline.Config{
		Folder: b.t.TempDir(), Late: 10 * time.Minute, Ahead: 10 * time.Second, Sink: to, Partitions: 4,
		Pace: r.group, Now: time.Now, Logger: reader.Logger,
	}}
	for _, c := range change {
		c(&config)
	}
	r.pipeline = pipeline.New(config.Config)
	r.pipeline.SetRules(config.Rules, nil)
	for _, one := range config.Sources {
		in, err := r.pipeline.NewIntake(one.IntakeConfig)
		if err != nil {
			b.t.Fatal(err)
		}
		if one.Kafka.Group == "" {
			r.sources = append(r.sources, b.alone(r, in, *one.Kafka))
			continue
		}
		made, err := New(in, *one.Kafka)
		if err != nil {
			b.t.Fatal(err)
		}
		if b.patience > 0 {
			made.(*source).patience = b.patience
		}
		if b.sparse > 0 {
			made.(*source).sparse = b.sparse
		}
		r.sources = append(r.sources, made)
	}
	if b.opened != nil {
		b.opened(r)
	}

	ctx, cancel := context.WithCancel(context.Background())
	for _, s := range r.sources {
		s.Announce()
	}
	var ended sync.WaitGroup
	for _, s := range r.sources {
		ended.Go(func() {
			if err := s.Run(ctx); err != nil {
				b.t.Error(err)
			}
		})
	}
	r.stop = sync.OnceFunc(func() {
		cancel()
		ended.Wait()
		client.Close()
		if r.journal != nil {
			if err := r.journal.Close(); err != nil {
				b.t.Error(err)
			}
		}
		if b.t.Failed() {
			b.t.Log(r.said.String())
		}
	})
	b.t.Cleanup(r.stop)
	return r
}

// A status is that of all sources.
type status struct {
	CaughtUp bool
	Sources  []pipeline.SourceStatus
}

func (r *running) Status() status {
	all := status{CaughtUp: true}
	for _, s := range r.sources {
		one := s.Status()
		all.CaughtUp = all.CaughtUp && one.CaughtUp
		all.Sources = append(all.Sources, one)
	}
	return all
}

// kill ends the sources with its cuts in flight, as far as a process can be killed from within: its sink
// acknowledges nothing any more.
func (r *running) kill(sink *sink.Memory) {
	sink.Set(func() { sink.Mute = true })
	r.stop()
}

func (b *bench) commits() []topic.Commit {
	b.t.Helper()
	ctx := b.within(time.Minute)
	commits, err := b.client.Committed(ctx, b.source.Kafka.Group, b.topic)
	for err != nil && ctx.Err() == nil { // a group's coordinator may be on its way
		time.Sleep(50 * time.Millisecond)
		commits, err = b.client.Committed(ctx, b.source.Kafka.Group, b.topic)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return commits
}

// Every record is counted once, although the collector is stopped, and killed with cuts in an unknown state.
func TestATopicIsCountedOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, config kafka.Config) {
		b := newBench(t, config, 3).filled(200)
		c := b.read()
		c.stop()
		b.produce(100)
		c = b.read()
		b.sink.Set(func() { b.sink.Mute = true })
		for range 5 { // several cuts without an acknowledgement
			b.readMore(30)
		}
		c.kill(b.sink)
		outstanding := 0
		for p, commit := range b.commits() {
			note, cuts, err := readNote(commit)
			if err != nil || note.Incarnation == "" {
				t.Errorf("partition %d: %+v %v", p, commit, err)
			}
			outstanding += len(cuts)
		}
		if outstanding == 0 {
			t.Error("no cut is outstanding")
		}
		sent := b.sink.Records()
		b.sink.Unmute()
		c = b.start(b.sink)
		wait.Until(t, "the cuts to be sent again", func() bool { return b.sink.Records() > sent })
		b.readMore(50)
		c.stop()
		for p, commit := range b.commits() {
			if _, cuts, err := readNote(commit); err != nil || len(cuts) > 0 || commit.Offset != int64((b.lines+b.partitions-1-p)/b.partitions) {
				t.Errorf("partition %d: %+v %v is committed at the end", p, commit, err)
			}
		}
	})
}

// Cuts that were made before the envelope was known are made again unchanged, although later records show the
// envelope.
func TestCutsOfAnUnknownEnvelopeAreMadeAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, config kafka.Config) {
		b := newBench(t, config, 1)
		b.source.Envelope = "auto"
		b.make()
		text := func(line string) topic.Message { return topic.Message{Value: []byte(line)} }
		bare := func() topic.Message { return text(b.line()) }
		b.sink.Set(func() { b.sink.Mute = true })
		c := b.start(b.sink)
		b.write(text("starting"), text("starting"), text("starting"), bare())
		b.sink.Await(t, b.want)
		c.kill(b.sink)
		if len(b.cuts()) == 0 {
			t.Fatal("no cut is outstanding")
		}
		var docker []topic.Message
		for range 50 {
			docker = append(docker, text(fmt.Sprintf(`{"log":%q,"stream":"stdout","time":"2026-03-03T08:00:00.5Z"}`, b.line()+"\n")))
		}
		b.write(docker...)
		sent := b.sink.Records()
		b.sink.Unmute()
		c = b.start(b.sink)
		wait.Until(t, "the cuts to be sent again", func() bool { return b.sink.Records() > sent })
		b.sink.Await(t, b.want)
		wait.Until(t, "the envelope to be found out", func() bool { return strings.Contains(fmt.Sprint(c.Status().Sources[0].Format), "docker") })
	})
}
