package topics

import (
	"context"
	"errors"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/kafka"
	"weir/internal/topic"
	"weir/pkg/collector/pipeline"
	"weir/test/real"
	"weir/test/sink"
	"weir/test/wait"
)

// trim deletes the records of the only partition before an offset.
func (b *bench) trim(before int64) {
	b.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.config.Brokers...))
	if err != nil {
		b.t.Fatal(err)
	}
	defer client.Close()
	request := kmsg.NewPtrDeleteRecordsRequest()
	request.TimeoutMillis = 5000
	request.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: b.topic, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: 0, Offset: before}}}}
	response, err := request.RequestWith(b.within(time.Minute), client)
	if err == nil {
		err = kerr.ErrorForCode(response.Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// commit replaces the stored offset of the group, as a tool can do.
func (b *bench) commit(commit topic.Commit) {
	b.t.Helper()
	admin := kafkago.Client{Addr: kafkago.TCP(b.config.Brokers...), Transport: &kafkago.Transport{}}
	defer admin.Transport.(*kafkago.Transport).CloseIdleConnections()
	response, err := admin.OffsetCommit(b.within(time.Minute), &kafkago.OffsetCommitRequest{GroupID: b.source.Kafka.Group, GenerationID: -1,
		Topics: map[string][]kafkago.OffsetCommit{b.topic: {{Partition: 0, Offset: commit.Offset, Metadata: commit.Metadata}}}})
	if err != nil || response.Topics[b.topic][0].Error != nil {
		b.t.Fatal(err, response)
	}
}

// Records that are deleted before they are read, also those of an outstanding cut, are counted as lost and logged.
func TestRecordsThatAreDeletedBeforeTheyAreRead(t *testing.T) {
	onBoth(t, func(t *testing.T, config kafka.Config) {
		b := newBench(t, config, 1).filled(20)
		c := b.read()
		c.stop()
		note, _, err := readNote(b.commits()[0])
		if err != nil {
			t.Fatal(err)
		}
		b.produce(20) // ten are read and noted, and ten are deleted
		note.Rules = b.rules.Fingerprint()
		b.commit(note.commit(20, []pipeline.Again{{From: 20, To: 25, Clock: time.Now().UnixMilli()}, {From: 25, To: 35, Clock: time.Now().UnixMilli()}}))
		b.trim(30)
		for n := 21; n <= 30; n++ {
			b.want["per-ip 203.0.113."+string(rune('0'+n%7))]--
		}
		c = b.read()
		if !c.said.Has("records were deleted before they were read") || !c.said.Has("records=10 from=20 to=30") {
			t.Error("it is not said:", c.said.String())
		}
	})
}

// A log that ends before the position, but begins as before, was cut off: its present records were counted. A log that
// begins differently is another.
func TestALogThatWasCutOff(t *testing.T) {
	for name, sameLog := range map[string]bool{"the same": true, "another": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, embedded(t), 1).filled(20)
			records, err := b.client.NewReader(b.topic, 0, 5).Fetch(b.within(time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			mark := idOf(&records[0])
			if sameLog {
				clear(b.want)
			} else {
				mark.Sum++
			}
			b.commit(kafkaNote{Incarnation: "i", Mark: &mark, Last: &recordID{99, 1}}.commit(100, nil))
			c := b.start(b.sink)
			wait.Until(t, "it to be said", func() bool { return c.said.Has("its log ends at 20, but it was read up to 100") })
			b.readMore(10)
			if c.said.Has("it was cut off") != sameLog {
				t.Error(c.said.String())
			}
		})
	}
}

// A cut that is older than the sink's retention is not made again: it might be counted twice.
func TestACutThatIsTooOldIsNotMadeAgain(t *testing.T) {
	b := newBench(t, embedded(t), 1).filled(10)
	clear(b.want)
	b.produce(10)
	old := time.Now().Add(-55 * time.Minute).UnixMilli()
	b.commit(kafkaNote{Incarnation: "i", Rules: b.rules.Fingerprint()}.commit(0, []pipeline.Again{{From: 0, To: 10, Clock: old}}))
	c := b.read(func(c *reading) { c.Retention = time.Hour })
	if !c.said.Has("batches are too old to be sent again") {
		t.Error("it is not said")
	}
}

// A collector that has lost a partition can note no cut: the cut is dropped before any of it is sent.
func TestACutThatTheGroupRefusesIsDropped(t *testing.T) {
	b := newBench(t, embedded(t), 1)
	b.make()
	ctx, leave := context.WithCancel(b.within(time.Minute))
	var claim *topic.Claim
	err := b.client.RunGroup(ctx, topic.Group{Name: b.source.Kafka.Group, Topics: map[string]int{b.topic: 1}}, func(_ context.Context, c *topic.Claim) error {
		claim = c
		leave()
		return nil
	})
	if err != nil || claim == nil {
		t.Fatal(err)
	}
	k, _ := b.still()
	o := &ownership{source: k, partition: k.possess(b.topic, 0), claim: claim}
	r, journal := o.reader(&takeover{note: kafkaNote{Incarnation: "i"}})
	defer r.stream.Close()
	running, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	go journal.run(running)
	defer journal.close()
	if err := r.stream.Add(running, []byte(b.line()), 1); err != nil {
		t.Fatal(err)
	}
	if err := r.stream.Drain(b.within(time.Minute)); !errors.Is(err, topic.ErrExpelled) {
		t.Errorf("the stream ends with %v", err)
	}
	if n := b.sink.Records(); n > 0 {
		t.Errorf("%d batches of it are sent", n)
	}
}

// A partition that cannot be read for a while, although it has more records, keeps the others waiting, and no hit
// comes too late. One that stays unreadable does so for half a minute.
func TestAPartitionWithoutALeader(t *testing.T) {
	real.Long(t)
	t.Parallel()
	t.Run("for a while", func(t *testing.T) {
		t.Parallel()
		withoutLeader(t, func(book *sink.Textbook, lines int, mend func()) {
			time.Sleep(2 * time.Second)
			if read := book.Count(); read > lines/10 {
				t.Errorf("%d of %d lines are read meanwhile", read, lines)
			}
			mend()
			readUntil(t, book, lines)
			if book.TooLate > 0 {
				t.Errorf("%d hits came too late", book.TooLate)
			}
		})
	})
	t.Run("for good", func(t *testing.T) {
		t.Parallel()
		withoutLeader(t, func(book *sink.Textbook, lines int, _ func()) {
			began := time.Now()
			readUntil(t, book, lines/2)
			if took := time.Since(began); took < 20*time.Second || took > 2*time.Minute {
				t.Errorf("the other partition was held for %s", took)
			}
		})
	})
}

func withoutLeader(t *testing.T, test func(book *sink.Textbook, lines int, mend func())) {
	b, second := withASecond(t)
	log := generatedBacklog(t, 1)
	lines := log.lines[:len(log.lines)/2*2]
	var messages []topic.Message
	for i, line := range lines {
		messages = append(messages, topic.Message{Partition: i % 2, Value: []byte(line)})
	}
	b.write(messages...)
	second.away.Store(true)
	b.start(b.sink)
	test(sink.NewTextbook(t, b.sink), len(lines), func() { second.away.Store(false) })
}
