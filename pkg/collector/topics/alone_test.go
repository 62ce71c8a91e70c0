package topics

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/kafka"
	"weir/internal/topic"
	"weir/pkg/collector/journal"
	"weir/pkg/collector/pipeline"
	"weir/test/metric"
	"weir/test/wait"
)

// newAloneBench is a topic that sources without a group read, one after the other, with one journal.
func newAloneBench(t *testing.T, config kafka.Config, partitions int) *bench {
	t.Helper()
	b := newBench(t, config, partitions)
	b.source.Kafka.Group, b.folder = "", t.TempDir()
	return b
}

// alone opens the journal and makes a source with it.
func (b *bench) alone(r *running, in *pipeline.Intake, config Config) pipeline.Source {
	b.t.Helper()
	j, err := journal.Open(b.folder, journal.Options{Logger: r.said.logger(), Outstanding: r.pipeline.Outstanding()})
	if err != nil {
		b.t.Fatal(err)
	}
	r.journal = j
	cuts := pipeline.NewKeptCuts(r.pipeline, j, r.said.logger())
	if err := cuts.Resend(b.within(time.Minute)); err != nil {
		b.t.Fatal(err)
	}
	made, err := NewAlone(in, NewLogs(j, cuts), config)
	if err != nil {
		b.t.Fatal(err)
	}
	return made
}

func (c *running) settle(t *testing.T) {
	t.Helper()
	wait.Until(t, "it to have caught up", func() bool { return c.Status().CaughtUp })
}

// Every record is counted once without a group, although the collector is stopped, and killed with batches in an unknown
// state.
func TestATopicIsCountedOnceWithoutAGroup(t *testing.T) {
	onBoth(t, func(t *testing.T, config kafka.Config) {
		b := newAloneBench(t, config, 3).filled(200)
		c := b.read()
		c.stop()
		b.produce(100)
		c = b.read()

		b.sink.Set(func() { b.sink.Mute = true })
		for range 5 { // several cuts without an acknowledgement
			b.readMore(30)
		}
		outstanding, _ := c.journal.Status()
		c.kill(b.sink)
		if outstanding == 0 {
			t.Error("no cut is outstanding")
		}

		sent := b.sink.Records()
		b.sink.Unmute()
		c = b.start(b.sink)
		wait.Until(t, "the cuts to be sent again", func() bool { return b.sink.Records() > sent })
		b.readMore(50)
		c.settle(t)
		if log := c.Status().Sources[0].Logs[0]; log.Lag != 0 || log.Position == 0 {
			t.Errorf("the status is %+v", log)
		}
		c.stop()

		groups, err := b.client.Groups(b.within(time.Minute), "readers."+b.topic)
		if err != nil || len(groups) > 0 {
			t.Errorf("there are groups: %+v %v", groups, err)
		}
	})
}

// A topic that was deleted and made again is a new log from its first record on, although it has more records than were
// read before.
func TestATopicThatIsMadeAgain(t *testing.T) {
	for name, running := range map[string]bool{"while it is read": true, "while nothing runs": false} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, config kafka.Config) {
				b := newAloneBench(t, config, 1).filled(20)
				c := b.read()
				if !running {
					c.settle(t)
					c.stop()
				}
				b.delete()
				b.make()
				b.produce(50)
				if !running {
					c = b.start(b.sink)
				}
				b.sink.Await(t, b.want)
				if !c.said.Has("its topic is another one") {
					t.Error(c.said.String())
				}
				b.readMore(10)
				c.settle(t)
				wait.Until(t, "one log to be in the journal", func() bool {
					c.stop()
					c = b.start(b.sink)
					return len(c.journal.Logs()) == 1
				})
			})
		})
	}
}

// A topic that is made again while nothing is fetched from it, as while our own Kafka is away, can be fetched at the old
// position without any failure. It is noticed all the same.
func TestATopicThatIsMadeAgainDuringAPause(t *testing.T) {
	onBoth(t, func(t *testing.T, config kafka.Config) {
		b := newAloneBench(t, config, 1).filled(20)
		c := b.read()
		b.sink.Set(func() { b.sink.Blocked = true })
		b.produce(5000) // so many that it waits for the sink in the middle of what it has fetched
		wait.Until(t, "the first to be in a batch", func() bool { return c.Status().Sources[0].Logs[0].Position > 20 })
		paused := time.Now()
		b.delete()
		b.make()
		const lines, key = 6000, "198.51.100.1"
		var messages []topic.Message
		for range lines {
			_, rest, _ := strings.Cut(b.line(), " ")
			messages = append(messages, topic.Message{Value: []byte(key + " " + rest)})
		}
		b.write(messages...)
		wait.Until(t, "a pause", func() bool { return time.Since(paused) > doubtAfter })
		b.sink.Set(func() { b.sink.Blocked = false })
		counted := func() int64 {
			keys, _ := b.sink.Counted(t)
			return keys["per-ip "+key]
		}
		wait.Until(t, "the new topic to be counted", func() bool { return counted() >= lines && c.Status().CaughtUp })
		if n := counted(); n != lines {
			t.Errorf("%d of %d records are counted", n, lines)
		}
	})
}

// A topic may be made again with fewer partitions, and grow later.
func TestATopicThatIsMadeAgainWithFewerPartitions(t *testing.T) {
	b := newAloneBench(t, embedded(t), 3).filled(30)
	c := b.read()
	c.settle(t)
	b.delete()
	b.partitions = 1
	b.make()
	b.readMore(20)
	wait.Until(t, "the others to be given up", func() bool { return len(c.Status().Sources[0].Logs) == 1 })
	c.settle(t)
	b.grow(2)
	b.readMore(20)
	c.settle(t)
}

// All records of partitions that come later count, whatever start says, and whether the collector runs or not.
func TestPartitionsThatComeLater(t *testing.T) {
	onBoth(t, func(t *testing.T, config kafka.Config) {
		b := newAloneBench(t, config, 1)
		b.source.Kafka.Start = pipeline.Start{Latest: true}
		b.make()
		b.produce(20)
		clear(b.want)
		c := b.start(b.sink)
		c.settle(t)
		b.readMore(10)
		b.grow(2)
		b.readMore(20)
		c.settle(t)
		c.stop()
		b.grow(3)
		b.produce(30)
		c = b.read()
		c.settle(t)
	})
}

// Records that retention deletes before they are read are counted as lost, and reading goes on behind them.
func TestRecordsThatAreDeletedBeforeTheyAreReadWithoutAGroup(t *testing.T) {
	onBoth(t, func(t *testing.T, config kafka.Config) {
		b := newAloneBench(t, config, 1).filled(20)
		c := b.read()
		c.settle(t)
		c.stop()
		for range 10 {
			was := b.want
			b.want = map[string]int64{}
			b.produce(1)
			b.want = was
		}
		b.produce(20)
		b.trim(30)
		registry := prometheus.NewRegistry()
		c = b.read(func(c *reading) { c.Metrics = registry })
		if !c.said.Has("records were deleted before they were read") || !c.said.Has("records=10 from=20 to=30") {
			t.Error("it is not logged:", c.said.String())
		}
		if lost, _ := metric.Value(t, registry, "weir_collector_uncounted_total", "reason", "lost"); lost != 10 {
			t.Errorf("%v records are lost", lost)
		}
	})
}

// noteThatItWasRead has the journal note that the topic's partition was read up to 100.
func (b *bench) noteThatItWasRead(read kafkaNote) {
	b.t.Helper()
	id, err := b.client.Identity(b.within(time.Minute), b.topic)
	if err != nil {
		b.t.Fatal(err)
	}
	key := logKey{b.source.Name, topicPartition{b.topic, 0}}
	note := aloneNote{Source: key.source, Topic: b.topic, Identity: id, Begun: 1, kafkaNote: read}
	j, err := journal.Open(b.folder, journal.Options{Logger: testLogger(b.t), Outstanding: prometheus.NewGauge(prometheus.GaugeOpts{Name: "cuts"})})
	if err != nil {
		b.t.Fatal(err)
	}
	if err := NewLogs(j, nil).begin(b.within(time.Minute), logName(key, id, false), 100, note); err != nil {
		b.t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		b.t.Fatal(err)
	}
}

// A log that began again after its disk was lost has the topic's id too, but only records that were written later.
func TestATopicWhoseDiskWasLost(t *testing.T) {
	b := newAloneBench(t, embedded(t), 1).filled(20)
	b.noteThatItWasRead(kafkaNote{Partitions: 1, At: time.Now().Add(-time.Minute).UnixMilli()})
	b.read()
}

// A topic that has the same id and ends before the position was cut off: its present records were counted before, and
// later ones count.
func TestATopicThatWasCutOff(t *testing.T) {
	b := newAloneBench(t, embedded(t), 1).filled(20)
	clear(b.want)
	b.noteThatItWasRead(kafkaNote{Partitions: 1})
	c := b.start(b.sink)
	wait.Until(t, "it to be logged", func() bool { return c.said.Has("its log ends at 20, but it was read up to 100; it was cut off") })
	c.settle(t)
	b.readMore(10)
	c.stop()
	c = b.start(b.sink)
	b.readMore(10)
	if strings.Contains(c.said.String(), "a partition begins as a new source") {
		t.Error("it begins again:", c.said.String())
	}
}

// A second collector with the same source reads all records too. Aggregators notice it, and count none twice.
func TestASecondCollectorCountsNothingTwice(t *testing.T) {
	b := newAloneBench(t, embedded(t), 1).filled(100)
	first := b.read()
	first.settle(t)
	b.folder = t.TempDir()
	second := b.start(b.sink)
	second.settle(t)
	counted, _ := b.sink.Counted(t)
	if fmt.Sprint(counted) != fmt.Sprint(b.want) {
		t.Errorf("counted %v, want %v", counted, b.want)
	}
}

// While the brokers are away nothing has caught up and the lag is not known. Reading goes on where it was, also when the
// topic was made again meanwhile.
func TestBrokersThatAreAwayForATime(t *testing.T) {
	b := newAloneBench(t, embedded(t), 2).filled(10)
	c, f, known := b.readFlaky()
	f.set(true)
	known(false)
	if c.Status().Sources[0].Error == "" {
		t.Error("the status has no error")
	}
	b.produce(10)
	f.set(false)
	b.sink.Await(t, b.want)
	known(true)

	f.set(true)
	known(false)
	b.delete()
	b.make()
	b.produce(40)
	f.set(false)
	b.sink.Await(t, b.want)
	known(true)
	if fault := c.Status().Sources[0].Error; fault != "" {
		t.Error("the status still has", fault)
	}
}

// The topic need not exist at first. Once it was missing for a while, all its records are new.
func TestATopicThatIsMadeLater(t *testing.T) {
	b := newAloneBench(t, embedded(t), 1)
	b.source.Kafka.Start = pipeline.Start{Latest: true}
	c := b.start(b.sink)
	wait.Until(t, "it to be missed", func() bool { return strings.Contains(c.Status().Sources[0].Error, "is its name right?") })
	if c.Status().CaughtUp {
		t.Error("it has caught up without its topic")
	}
	k := c.sources[0].(*alone)
	wait.Until(t, "it to be missing for long", func() bool { return missesOf(k, b.topic) >= goneLooks })
	b.make()
	b.readMore(30)
	c.settle(t)
}

// Notes of files and of partitions are not taken for each other.
func TestNotesAreNotTakenForOthers(t *testing.T) {
	note := aloneNote{Source: "logs", Topic: "access", Partition: 3, Identity: "c/access/1", kafkaNote: kafkaNote{Partitions: 4, Last: &recordID{7, 8}}}
	read, ok := readAloneNote(note.bytes())
	if !ok || read.key() != note.key() || *read.Last != *note.Last || read.Identity != note.Identity {
		t.Errorf("read %+v, %t", read, ok)
	}
	for _, text := range []string{"", "{}", string(aloneMark), string(aloneMark) + `{"v":2}`, "/var/log/access.log"} {
		if _, ok := readAloneNote([]byte(text)); ok {
			t.Errorf("%q is taken for a note", text)
		}
	}
}

func TestTheNameOfALog(t *testing.T) {
	key := logKey{strings.Repeat("x", 300) + "logs", topicPartition{strings.Repeat("t", 249), 1000}}
	name := logName(key, topic.Identity("5L6g3nShT-eMCtK--X86sw/"+key.topic+"/"+strings.Repeat("a", 32)), true)
	if len(name) > 480 || !strings.HasSuffix(name, "xlogs") {
		t.Errorf("%d bytes: %s", len(name), name)
	}
	if one, other := logName(key, "c/t/", false), logName(key, "c/t/", false); one == other {
		t.Error("two logs without an id have one name:", one)
	}
}

// missesOf is how often a topic was missing when it was last looked for.
func missesOf(k *alone, name string) int32 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if t := k.topics[name]; t != nil {
		return t.missing.Load()
	}
	return 0
}
