package topics

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/internal/topic"
	"weir/pkg/collector/pace"
	"weir/test/wait"
)

// The commits of another collector's partition hold ours, as a partition of ours would: for half a minute when it
// stops, as long as its commits state that it waits for others, and not when it has nothing more to read.
func TestPartitionsOfOthersAreHeardOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newStill(t, time.Minute*10/9)
		ours := k.possess("logs", 0)
		day := time.Now().Add(-24 * time.Hour).UnixMilli()
		hear := func(n kafkaNote) {
			n.Incarnation = "i" + n.Incarnation
			k.applyCommits("logs", []topic.Commit{{Offset: -1}, n.commit(7, nil)}, nil)
		}
		limit := func(want int64, when string) {
			t.Helper()
			if got := ours.member.Newest(); got != want {
				t.Errorf("%s: the limit is %d, want %d", when, got, want)
			}
		}
		free := int64(1<<63 - 1)
		k.applyCommits("logs", []topic.Commit{{Offset: -1}, {Offset: -1}}, nil)
		limit(pace.NoTime, "of one that nothing is heard of")
		hear(kafkaNote{Reached: day})
		limit(day+60_000, "of one that goes on")
		time.Sleep(pace.StallAfter)
		hear(kafkaNote{Reached: day})
		limit(free, "of one that has stopped")
		hear(kafkaNote{Reached: day + 1})
		limit(day+60_001, "of one that goes on again")
		for beat := range int64(10) {
			time.Sleep(waitsBeat * time.Second)
			hear(kafkaNote{Reached: day + 1, Waits: 1 + beat})
			limit(day+60_001, "of one that waits")
		}
		for range 70 {
			time.Sleep(time.Second)
			hear(kafkaNote{Reached: day + 1, Waits: 10})
			ours.member.Newest()
		}
		limit(free, "of one that says no longer that it waits")
		hear(kafkaNote{Reached: day + 2})
		limit(day+60_002, "of one that is back")
		hear(kafkaNote{Reached: day + 2, End: true})
		limit(day+60_002, "of one that says it is read to its end")
		k.partition("logs", 1).member.WasEmpty(time.Now())
		limit(free, "of one that is seen to be read to its end")
		hear(kafkaNote{Reached: day, Incarnation: "another"})
		limit(day+60_000, "of one that begins anew")
		for range 60 {
			time.Sleep(time.Second)
			k.applyCommits("logs", nil, topic.ErrUnreachable)
		}
		limit(day+60_000, "while nothing can be heard")
		for range 31 {
			time.Sleep(time.Second)
			k.applyCommits("logs", nil, topic.ErrNoTopic)
			ours.member.Newest()
		}
		limit(free, "of a topic that is gone")
		hear(kafkaNote{Reached: day + 1, Incarnation: "another"})
		limit(day+60_001, "of a topic that is back")
		k.leave()
		limit(free, "when the source has ended")
	})
}

// Other sources wait until the partitions are found, and then for all of them, of each topic, whatever their owners.
func TestOthersWaitForPartitionsThatAreYetToBeFound(t *testing.T) {
	b := newBench(t, kafkatest.Embedded(t), 2)
	b.make()
	second := b.topic + ".second"
	if err := b.client.EnsureTopics(b.within(time.Minute), topic.Topic{Name: second, Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	b.source.Kafka.Topics = []string{b.topic, second}
	k, group := b.still()
	file := group.Join("a file", time.Minute)
	k.Announce()
	if file.Newest() != pace.NoTime {
		t.Error("a file is sent before it is known what the topics hold")
	}
	if found := k.present(t.Context()); len(found) != 2 || len(k.known()) != 2 {
		t.Errorf("found %v, heard of %v", found, k.known())
	}
	for _, p := range k.partitions {
		if file.Newest() != pace.NoTime {
			t.Errorf("a file does not wait for %s", p.topicPartition)
		}
		p.member.Reach(1)
	}
	if len(k.partitions) != 3 || file.Newest() != 1+file.Slack() {
		t.Errorf("of %d partitions the file may be ahead up to %d", len(k.partitions), file.Newest())
	}
}

// A partition that begins again, as all do at first, keeps other logs waiting meanwhile.
func TestOthersWaitForAPartitionThatBeginsAgain(t *testing.T) {
	b := newBench(t, kafkatest.Embedded(t), 1)
	b.make()
	k, group := b.still()
	p := k.possess(b.topic, 0)
	file := group.Join("a file", time.Minute)
	if file.Ask(1, func() { t.Error("it may go on") }) {
		t.Fatal("a file is sent before it is known what the partition holds")
	}
	(&ownership{source: k, partition: p}).restart()
	if file.Newest() != pace.NoTime {
		t.Error("the file waits no more")
	}
}

// A doubt that comes during a look causes another look.
func TestDoubtsThatComeWhileOneLooks(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	b := newBench(t, kafka.Config{Brokers: cluster.ListenAddrs(), Create: true}, 1)
	b.make()
	k, group := b.still()
	k.possess(b.topic, 0).member.Idle(true)
	later := group.Share("later", time.Minute)
	var begun, asked atomic.Int64
	cluster.ControlKey(int16(kmsg.OffsetFetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		begun.Add(1)
		return nil, nil, false
	})
	cluster.ControlKey(int16(kmsg.ListOffsets), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if asked.Add(1) == 1 {
			later.Ask(1, func() {})
		}
		return nil, nil, false
	})
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() { k.follow(ctx) })
	defer following.Wait()
	defer cancel()
	wait.Until(t, "it to hear of others", func() bool { return begun.Load() > 0 })
	later.Ask(1, func() {})
	wait.Until(t, "another look", func() bool { return asked.Load() > 2 }) // a look asks for the beginning and for the end
}
