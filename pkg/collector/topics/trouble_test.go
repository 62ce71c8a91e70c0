package topics

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/internal/topic"
	"weir/pkg/collector/pipeline"
	"weir/pkg/rule"
	"weir/test/wait"
)

func embedded(t testing.TB) kafka.Config { return kafkatest.Embedded(t) }

// A topic that is deleted and made again, during reading and between readings, with more records than before and with
// fewer, is another source each time: none of it is taken for records that were counted.
func TestATopicMadeAgainIsANewSource(t *testing.T) {
	onBoth(t, func(t *testing.T, config kafka.Config) {
		b := newBench(t, config, 2).filled(100)
		c := b.read()
		b.delete()
		wait.Until(t, "it to be said", func() bool { return c.said.Has("topic does not exist") })
		wait.Until(t, "the status to say it", func() bool { return c.Status().Sources[0].Error != "" })
		b.make()
		b.readMore(10)
		if !c.said.Has("a partition begins as a new source") {
			t.Error("it is not said")
		}
		for line := range strings.Lines(c.said.String()) {
			if strings.Contains(line, "a partition begins as a new source") && (strings.Count(line, " source=") != 1 || strings.Count(line, " id=") != 1) {
				t.Error("a key is there twice, or missing:", line)
			}
		}
		c.stop()
		b.delete()
		b.make()
		b.produce(200)
		b.read()
		if sources := b.sink.Sources(t); len(sources) != 6 {
			t.Errorf("%d sources: %v", len(sources), sources)
		}
	})
}

// If one of two topics is missing, the other is read meanwhile, and the missing one as soon as it exists.
func TestATopicThatIsMadeLate(t *testing.T) {
	t.Parallel()
	b := newBench(t, embedded(t), 2).filled(20)
	other := newBench(t, b.config, 3)
	b.source.Kafka.Topics = append(b.source.Kafka.Topics, other.topic)
	c := b.read()
	wait.Until(t, "it to be said", func() bool { return c.said.Has("topic " + other.topic + ": the topic does not exist") })
	if c.Status().CaughtUp {
		t.Error("it has caught up")
	}
	other.make()
	other.produce(30)
	for key, n := range other.want {
		b.want[key] += n
	}
	b.sink.Await(t, b.want)
	wait.Until(t, "it to have caught up", func() bool { return c.Status().CaughtUp })
}

// start is where reading begins if nothing is stored; a partition that is added later is read from its beginning all
// the same.
func TestWhereReadingOfATopicBegins(t *testing.T) {
	onBoth(t, func(t *testing.T, config kafka.Config) {
		for name, start := range map[string]pipeline.Start{"latest": {Latest: true}, "a time": {Before: time.Millisecond}} {
			t.Run(name, func(t *testing.T) {
				b := newBench(t, config, 2).filled(20)
				clear(b.want)
				time.Sleep(20 * time.Millisecond) // a record's time is in whole milliseconds
				b.source.Kafka.Start = start
				c := b.start(b.sink)
				begun := func(partitions int) func() bool {
					return func() bool {
						n := 0
						for _, commit := range b.commits() {
							if commit.Offset >= 0 {
								n++
							}
						}
						return n == partitions
					}
				}
				wait.Until(t, "it to begin", begun(2))
				c.stop()
				b.produce(10) // nothing was read, and yet it has begun
				c = b.read()
				c.stop()
				b.grow(4)
				b.produce(40)
				b.read()
			})
		}
	})
}

func (b *bench) grow(partitions int) {
	b.t.Helper()
	admin := kafkago.Client{Addr: kafkago.TCP(b.config.Brokers...), Transport: &kafkago.Transport{}}
	response, err := admin.CreatePartitions(b.within(time.Minute),
		&kafkago.CreatePartitionsRequest{Topics: []kafkago.TopicPartitionsConfig{{Name: b.topic, Count: int32(partitions)}}})
	if err != nil || response.Errors[b.topic] != nil {
		b.t.Fatal(err, response)
	}
	admin.Transport.(*kafkago.Transport).CloseIdleConnections()
	b.producer.Close(b.within(time.Minute))
	b.partitions = partitions
	wait.Until(b.t, "the topic to grow", func() bool {
		found, err := b.client.Partitions(b.within(time.Second), b.topic)
		return err == nil && found == partitions
	})
	b.make()
}

// An offset that a tool has set is read from, as a new source: the earlier counts are unknown.
func TestAnOffsetThatAToolHasSet(t *testing.T) {
	t.Parallel()
	b := newBench(t, embedded(t), 1).filled(20)
	c := b.read()
	c.stop()
	b.commit(topic.Commit{Offset: 15})
	for n := 16; n <= 20; n++ {
		b.want[fmt.Sprintf("per-ip 203.0.113.%d", n%7)]++
	}
	c = b.read()
	if !c.said.Has("was not written by a collector") {
		t.Error("it is not said")
	}
}

// Cuts to be made again by unknown rules wait for these. If the rules do not come, the cuts are made by others, and
// still counted once.
func TestCutsOfUnknownRules(t *testing.T) {
	t.Parallel()
	others, _, err := rule.Parse("rules.yaml", []byte("rules: [{name: per-ip, key: ip, limits: [10/min]}, {name: per-path, key: path, limits: [10/min]}]"))
	if err != nil {
		t.Fatal(err)
	}
	outstanding := func(t *testing.T) *bench {
		b := newBench(t, embedded(t), 1)
		b.make()
		c := b.start(b.sink)
		b.sink.Set(func() { b.sink.Mute = true })
		for range 3 {
			b.readMore(30)
		}
		c.kill(b.sink)
		b.sink.Unmute()
		return b
	}
	t.Run("they come", func(t *testing.T) {
		t.Parallel()
		b := outstanding(t)
		sent := b.sink.Records()
		c := b.start(b.sink, func(c *reading) { c.Rules = others })
		wait.Until(t, "it to be said", func() bool { return c.said.Has("waiting for these rules") })
		c.pipeline.SetRules(b.rules, nil)
		wait.Until(t, "the cuts to be made again", func() bool { return b.sink.Records() > sent })
		b.readMore(10)
		if c.said.Has("by other rules") {
			t.Error(c.said.String())
		}
	})
	t.Run("they do not come", func(t *testing.T) {
		t.Parallel()
		b := outstanding(t)
		b.patience = 100 * time.Millisecond
		before := maps.Clone(b.want)
		c := b.start(b.sink, func(c *reading) { c.Rules = others })
		wait.Until(t, "it to be said", func() bool { return c.said.Has("by other rules") })
		wait.Until(t, "the cuts to be made again", func() bool { return len(b.cuts()) == 0 })
		for range 20 {
			line := b.line()
			b.want[fmt.Sprintf("per-path /%d", b.lines)]++
			b.write(topic.Message{Value: []byte(line)})
		}
		wait.Until(t, "all to be counted", func() bool {
			counted, conflicts := b.sink.Counted(t)
			for key, n := range counted {
				if n > b.want[key] && before[key] > 0 {
					t.Fatalf("%s is counted %d times of %d", key, n, b.want[key])
				}
			}
			for key, n := range b.want {
				if counted[key] != n {
					return false
				}
			}
			return conflicts > 0
		})
	})
}

func (b *bench) cuts() (all []pipeline.Again) {
	b.t.Helper()
	for _, commit := range b.commits() {
		_, cuts, err := readNote(commit)
		if err != nil {
			b.t.Fatal(err)
		}
		all = append(all, cuts...)
	}
	return all
}

// A wrong password is reported as such, and reading begins when it is right.
func TestAWrongPassword(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Shared(t)
	b := newBench(t, kafka.Config{Brokers: cluster.Addresses(), Create: true}, 1).filled(10)
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.config = kafka.Config{Brokers: cluster.Listener("SASL"), SASL: &kafka.SASL{Mechanism: "scram-sha-256", User: kafkatest.User, PasswordFile: password}}
	c := b.start(b.sink)
	wait.Until(t, "it to be said", func() bool { return c.said.Has(`refuse user \"weir\": wrong password`) })
	wait.Until(t, "the status to say it", func() bool { return c.Status().Sources[0].Error != "" })
	if err := os.WriteFile(password, []byte(kafkatest.Password), 0o600); err != nil {
		t.Fatal(err)
	}
	b.sink.Await(t, b.want)
	wait.Until(t, "it to have caught up", func() bool { s := c.Status(); return s.CaughtUp && s.Sources[0].Error == "" })
}
