package collector

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

var topics atomic.Int64

// A kafkaBench is a topic, and collectors of one group that read it.
type kafkaBench struct {
	t          testing.TB
	config     kafka.Config
	client     *kafka.Client
	topic      string
	partitions int
	producer   *kafka.Producer
	sink       *sink.Memory
	rules      *rule.Set
	source     SourceConfig // without its client
	patience   time.Duration
	opened     func(*Collector) // called before one runs

	lines int
	want  map[string]int64
}

func newKafkaBench(t testing.TB, config kafka.Config, partitions int) *kafkaBench {
	t.Helper()
	config.Logger = testLogger(t)
	b := &kafkaBench{t: t, config: config, client: kafkatest.Client(t, config), partitions: partitions, sink: sink.New(4), want: map[string]int64{}}
	b.topic = fmt.Sprintf("logs.%d.%d", os.Getpid(), topics.Add(1))
	set, err := rule.FromLimits([]string{"10/min"}, "ip")
	if err != nil {
		t.Fatal(err)
	}
	b.rules = set
	b.source = SourceConfig{IntakeConfig: pipeline.IntakeConfig{Name: "logs", Format: "combined"}, Kafka: &KafkaConfig{Group: "readers." + b.topic, Topics: []string{b.topic}, Session: 6 * time.Second}}
	return b
}

// still is the source, in a pipeline that nothing else uses, and the group of the logs there.
func (b *kafkaBench) still() (*kafkaSource, *pace.Group) {
	b.t.Helper()
	b.source.Kafka.Client = b.client
	group := pace.New(testLogger(b.t), time.Now)
	c := pipeline.New(pipeline.Config{Folder: b.t.TempDir(), Late: time.Minute, Logger: testLogger(b.t), Pace: group, Now: time.Now, Sink: b.sink, Partitions: 4})
	c.SetRules(b.rules, nil)
	in, err := c.NewIntake(b.source.IntakeConfig)
	if err != nil {
		b.t.Fatal(err)
	}
	source, err := newKafkaSource(in, *b.source.Kafka)
	if err != nil {
		b.t.Fatal(err)
	}
	return source.(*kafkaSource), group
}

// make makes the topic.
func (b *kafkaBench) make() {
	b.t.Helper()
	if err := b.client.EnsureTopics(b.within(time.Minute), kafka.Topic{Name: b.topic, Partitions: b.partitions}); err != nil {
		b.t.Fatal(err)
	}
	producer := b.client.OpenProducer(kafka.ProducerConfig{Topic: b.topic, Partitions: b.partitions})
	b.producer = producer
	b.t.Cleanup(func() { producer.Close(b.within(time.Minute)) })
}

func (b *kafkaBench) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.t.Context()), d)
	b.t.Cleanup(cancel)
	return ctx
}

// line returns one more line, whose hit is wanted.
func (b *kafkaBench) line() string {
	b.lines++
	ip := fmt.Sprintf("203.0.113.%d", b.lines%7)
	b.want["per-ip "+ip]++
	return fmt.Sprintf(`%s - - [03/Mar/2026:08:%02d:%02d +0000] "GET /%d HTTP/1.1" 200 2 "-" "test"`, ip, b.lines/60%60, b.lines%60, b.lines)
}

// produce writes lines to the topic, round-robin, and returns when it has them.
func (b *kafkaBench) produce(lines int) {
	b.t.Helper()
	var messages []kafka.Message
	for range lines {
		partition := b.lines % b.partitions
		messages = append(messages, kafka.Message{Partition: partition, Value: []byte(b.line())})
	}
	b.write(messages...)
}

func (b *kafkaBench) write(messages ...kafka.Message) {
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
func (b *kafkaBench) delete() {
	b.t.Helper()
	b.producer.Close(b.within(time.Minute))
	admin := kafkago.Client{Addr: kafkago.TCP(b.config.Brokers...), Transport: &kafkago.Transport{Dial: b.config.Dial}}
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

// A running is a collector that runs.
type running struct {
	*Collector
	cancel context.CancelFunc
	ended  chan error
	stop   func()
	said   *said
}

// start starts a collector with a client and a folder of its own, that writes to a sink.
func (b *kafkaBench) start(sink pipeline.Sink, change ...func(*Config)) *running {
	b.t.Helper()
	said := &said{}
	source, reader := b.source, b.config
	of := *source.Kafka
	reader.Logger = said.logger()
	client, err := kafka.Open(reader)
	if err != nil {
		b.t.Fatal(err)
	}
	of.Client = client
	source.Kafka = &of
	config := Config{Folder: b.t.TempDir(), Rules: b.rules, Late: 10 * time.Minute, Ahead: 10 * time.Second, Sink: sink, Partitions: 4,
		Logger: said.logger(), Sources: []SourceConfig{source}}
	for _, c := range change {
		c(&config)
	}
	collector, err := Open(config)
	if err != nil {
		b.t.Fatal(err)
	}
	if k, ok := collector.sources[0].(*kafkaSource); ok && b.patience > 0 {
		k.patience = b.patience
	}
	if b.opened != nil {
		b.opened(collector)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Collector: collector, cancel: cancel, ended: make(chan error, 1), said: said}
	go func() { r.ended <- collector.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-r.ended; err != nil {
			b.t.Error(err)
		}
		if err := collector.Close(); err != nil {
			b.t.Error(err)
		}
		client.Close()
		if b.t.Failed() {
			b.t.Log(said.String())
		}
	})
	b.t.Cleanup(r.stop)
	return r
}

// kill ends the collector with its cuts in flight, as far as a process can be killed from within: its sink
// acknowledges nothing any more.
func (r *running) kill(sink *sink.Memory) {
	sink.Set(func() { sink.Mute = true })
	r.stop()
}

func (b *kafkaBench) commits() []kafka.Commit {
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
		b := newKafkaBench(t, config, 3)
		b.make()
		b.produce(200)
		c := b.start(b.sink)
		b.sink.Await(t, b.want)
		c.stop()
		b.produce(100)
		c = b.start(b.sink)
		b.sink.Await(t, b.want)
		b.sink.Set(func() { b.sink.Mute = true })
		for range 5 { // several cuts without an acknowledgement
			b.produce(30)
			b.sink.Await(t, b.want)
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
		b.produce(50)
		b.sink.Await(t, b.want)
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
		b := newKafkaBench(t, config, 1)
		b.source.Envelope = "auto"
		b.make()
		text := func(line string) kafka.Message { return kafka.Message{Value: []byte(line)} }
		bare := func() kafka.Message { return text(b.line()) }
		b.sink.Set(func() { b.sink.Mute = true })
		c := b.start(b.sink)
		b.write(text("starting"), text("starting"), text("starting"), bare())
		b.sink.Await(t, b.want)
		c.kill(b.sink)
		if len(b.cuts()) == 0 {
			t.Fatal("no cut is outstanding")
		}
		var docker []kafka.Message
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
