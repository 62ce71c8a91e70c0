package topics

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/kafka"
	"weir/internal/topic"
	"weir/pkg/collector/pace"
	"weir/test/sink"
	"weir/test/wait"
)

// TestABacklogThatOneSeesFirst has two partitions read to their ends, by one collector and by two, when a backlog
// arrives for both. One sees it at once and the other not yet: the first waits.
func TestABacklogThatOneSeesFirst(t *testing.T) {
	for collectors := 1; collectors <= 2; collectors++ {
		t.Run(fmt.Sprint(collectors), func(t *testing.T) {
			t.Parallel()
			b, second := withASecond(t)
			book := sink.NewTextbook(t, b.sink)
			b.write(topic.Message{Partition: 0, Value: lineAt(0)}, topic.Message{Partition: 1, Value: lineAt(0)})
			var all []*running
			for range collectors {
				all = append(all, b.start(b.sink))
			}
			wait.Until(t, "each to have its share", func() bool {
				owned := 0
				for _, r := range all {
					owned += r.owns()
				}
				return owned == 2 && all[0].owns() == 2/collectors
			})
			readUntil(t, book, 2)
			wait.Until(t, "all to be idle", func() bool {
				for _, r := range all {
					if r.reads() {
						return false
					}
				}
				return true
			})
			second.away.Store(true)
			wait.Until(t, "the second partition to be away", func() bool { return second.asked.Load() })
			later := []topic.Message{{Partition: 1, Value: lineAt(1)}}
			for minute := 1; minute <= 180; minute++ {
				later = append(later, topic.Message{Partition: 0, Value: lineAt(minute)})
			}
			b.write(later...)
			wait.Until(t, "the first partition to wait for the second", func() bool {
				for _, r := range all {
					if r.waits() {
						return true
					}
				}
				return false
			})
			if hits := book.Count(); hits > 2+10 {
				t.Errorf("%d hits were sent, of more than the lateness", hits)
			}
			second.away.Store(false)
			readUntil(t, book, 2+181)
			if book.TooLate > 0 {
				t.Errorf("%d hits came too late", book.TooLate)
			}
		})
	}
}

// lineAt is a line of a minute of some day.
func lineAt(minute int) []byte {
	return fmt.Appendf(nil, `203.0.113.7 - - [03/Mar/2026:%02d:%02d:00 +0000] "GET / HTTP/1.1" 200 2 "-" "test"`, minute/60, minute%60)
}

// A secondPartition sometimes has no leader.
type secondPartition struct{ away, asked atomic.Bool }

func withASecond(t *testing.T) (*bench, *secondPartition) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	second := &secondPartition{}
	cluster.ControlKey(int16(kmsg.Fetch), func(asked kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		fetch := asked.(*kmsg.FetchRequest)
		if !second.away.Load() || len(fetch.Topics) == 0 || fetch.Topics[0].Partitions[0].Partition != 1 {
			return nil, nil, false
		}
		second.asked.Store(true)
		answer := fetch.ResponseKind().(*kmsg.FetchResponse)
		partition := kmsg.NewFetchResponseTopicPartition()
		partition.Partition, partition.ErrorCode = 1, kerr.NotLeaderForPartition.Code
		answer.Topics = []kmsg.FetchResponseTopic{{Topic: fetch.Topics[0].Topic, Partitions: []kmsg.FetchResponseTopicPartition{partition}}}
		return answer, nil, true
	})
	b := newBench(t, kafka.Config{Brokers: cluster.ListenAddrs(), Create: true}, 2)
	b.make()
	return b, second
}

// reads reports whether any of the partitions has something to read.
func (c *running) reads() bool {
	reading, _ := c.group.Count()
	return reading > 0
}

// waits reports whether any of the partitions waits for others.
func (c *running) waits() bool {
	_, waiting := c.group.Count()
	return waiting > 0
}

func TestOneThatSharesALogIsIdleOnlyWhenItIsKnownToBe(t *testing.T) {
	h := pace.New(testLogger(t), time.Now)
	idle := h.Share("idle", time.Minute)
	idle.Reach(1000)
	idle.Idle(true)
	idle.WasEmpty(time.Now())
	later := h.Share("later", time.Minute)
	doubts := h.Doubts()
	if limit := later.Newest(); limit != 1000+54_000 {
		t.Error("it is taken to be idle still, up to", limit)
	}
	woken := false
	if later.Ask(1000+54_001, func() { woken = true }) {
		t.Error("it may go on")
	}
	<-doubts
	if idle.WasEmpty(time.Now()); !woken {
		t.Error("it is not told that it may go on")
	}
	if limit := later.Newest(); limit < time.Now().UnixMilli() {
		t.Error("it is not taken to be idle, up to", limit)
	}
	idle.Idle(false)
	if limit := later.Newest(); limit != 1000+54_000 {
		t.Error("it is taken to be idle though it reads, up to", limit)
	}
}
