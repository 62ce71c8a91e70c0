package kafkalog_test

import (
	"context"
	"fmt"
	"hash/crc32"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/compress"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/internal/topic"
	"weir/pkg/blocklist"
	"weir/pkg/blocklist/follow"
	"weir/pkg/blocklist/kafkalog"
	"weir/test/real"
	"weir/test/wait"
)

func TestMain(m *testing.M) {
	code := kafkatest.Run(m)
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

var list = blocklist.ListID{Name: "a", Epoch: 1}

func entry(t testing.TB, key string, offset int64) (record, value []byte) {
	t.Helper()
	now := time.Now().UnixMilli()
	e := &blocklist.Entry{ID: fmt.Sprint(key, offset), Rule: "per-ip", Key: key, From: now, Until: now + 3600_000, Decided: now, By: "weir", Offset: offset}
	value, err := e.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return blocklist.RecordKey("per-ip", key), value
}

func mark(t testing.TB, offset int64) (record, value []byte) {
	t.Helper()
	m := &blocklist.Mark{List: list, Partitions: 1, Offset: offset, At: time.Now().UnixMilli()}
	value, err := m.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return m.RecordKey(), value
}

// following follows a topic as long as the test runs.
func following(t *testing.T, client *kafka.Client, name string) (*blocklist.Set, *follow.Follower) {
	t.Helper()
	set := blocklist.NewSet(blocklist.Limits{})
	f := follow.NewFromLog(follow.Config{Set: set}, kafkalog.New(client, name))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return set, f
}

func keys(set *blocklist.Set) map[string]string {
	found := map[string]string{}
	for e := range set.All(time.Now().UnixMilli()) {
		found[e.Key] = e.ID
	}
	return found
}

func blockedSoon(t *testing.T, set *blocklist.Set, key string) {
	t.Helper()
	wait.Until(t, key+" is blocked", func() bool {
		return set.Check(&blocklist.Asked{Keys: []blocklist.RuleKey{{Rule: "per-ip", Key: []byte(key)}}}, time.Now().UnixMilli()).Entry.Found()
	})
}

func send(t testing.TB, producer *kafka.Producer, key, value []byte) {
	t.Helper()
	if err := producer.Send(t.Context(), topic.Message{Key: key, Value: value}); err != nil {
		t.Fatal(err)
	}
}

// A shape is a log after the log cleaner: segments of batches, from which records and complete batches are missing.
type shape struct {
	segments [][]batch
	end      int64
}

type batch struct {
	base, last int64
	kept       []int64
	codec      compress.Compression
}

func TestEveryShapeOfACompactedLog(t *testing.T) {
	const many = int64(300_000)
	snappy := compress.Snappy
	for name, s := range map[string]shape{
		"gaps inside batches": {end: 30, segments: [][]batch{{
			{0, 9, []int64{1, 4, 7}, 0}, {10, 19, []int64{12, 19}, 0}, {20, 29, []int64{20, 29}, 0}}}},
		"a hole at a segment's end": {end: 20, segments: [][]batch{
			{{0, 9, []int64{0, 1, 2}, 0}}, {{10, 19, []int64{11, 19}, 0}}}},
		"a hole at a segment's end, snappy": {end: 20, segments: [][]batch{
			{{0, 9, []int64{0, 1, 2}, snappy}}, {{10, 19, []int64{11, 19}, snappy}}}},
		"an empty batch between others": {end: 30, segments: [][]batch{{
			{0, 9, []int64{3}, 0}, {10, 19, nil, 0}, {20, 29, []int64{29}, 0}}}},
		"two empty batches in a row": {end: 40, segments: [][]batch{{
			{0, 9, []int64{3}, 0}, {10, 19, nil, 0}, {20, 29, nil, 0}, {30, 39, []int64{39}, 0}}}},
		"a segment of empty batches": {end: 40, segments: [][]batch{
			{{0, 9, []int64{3}, 0}}, {{10, 19, nil, 0}, {20, 29, nil, 0}}, {{30, 39, []int64{39}, 0}}}},
		"a hole of 300,000, snappy": {end: many + 20, segments: [][]batch{
			{{0, 9, []int64{0, 9}, snappy}, {many + 10, many + 19, []int64{many + 19}, snappy}}}},
	} {
		t.Run(name, func(t *testing.T) { followShape(t, s) })
	}
}

// followShape follows a log whose last record is the watermark that completes it.
func followShape(t *testing.T, s shape) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	cluster.ControlKey(int16(kmsg.Fetch), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		return s.answer(t, request.(*kmsg.FetchRequest)), nil, true
	})
	set, _ := following(t, kafkatest.Client(t, kafka.Config{Brokers: cluster.ListenAddrs()}), "log")
	wait.Until(t, "the list is whole", set.Whole)
	if got := set.Version(); got != (blocklist.Version{List: list, Offset: s.last()}) {
		t.Errorf("%v, and the last record is %d", got, s.last())
	}
	found := keys(set)
	for _, segment := range s.segments {
		for _, b := range segment {
			for _, offset := range b.kept {
				if _, ok := found[fmt.Sprint(offset)]; !ok && offset != s.last() {
					t.Errorf("the record at %d is missing", offset)
				}
			}
		}
	}
}

func (s shape) last() int64 {
	b := s.segments[len(s.segments)-1]
	kept := b[len(b)-1].kept
	return kept[len(kept)-1]
}

func (s shape) answer(t *testing.T, fetch *kmsg.FetchRequest) kmsg.Response {
	asked := fetch.Topics[0].Partitions[0]
	response := fetch.ResponseKind().(*kmsg.FetchResponse)
	topic := kmsg.NewFetchResponseTopic()
	topic.Topic = fetch.Topics[0].Topic
	partition := kmsg.NewFetchResponseTopicPartition()
	partition.HighWatermark, partition.LastStableOffset = s.end, s.end
	for _, segment := range s.segments {
		for _, b := range segment {
			if b.last >= asked.FetchOffset {
				partition.RecordBatches = append(partition.RecordBatches, s.encode(t, b)...)
			}
		}
		if partition.RecordBatches != nil {
			break
		}
	}
	topic.Partitions = append(topic.Partitions, partition)
	response.Topics = append(response.Topics, topic)
	return response
}

func (s shape) encode(t *testing.T, b batch) []byte {
	var records []byte
	for _, offset := range b.kept {
		key, value := entry(t, fmt.Sprint(offset), offset)
		if offset == s.last() {
			key, value = mark(t, offset)
		}
		record := kmsg.Record{OffsetDelta: int32(offset - b.base), Key: key, Value: value}
		record.Length = int32(len(record.AppendTo(nil)) - 1)
		records = record.AppendTo(records)
	}
	if b.codec != 0 {
		records = pack(b.codec, records)
	}
	now := time.Now().UnixMilli()
	encoded := kmsg.RecordBatch{FirstOffset: b.base, Magic: 2, Attributes: int16(b.codec), LastOffsetDelta: int32(b.last - b.base),
		FirstTimestamp: now, MaxTimestamp: now, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(len(b.kept)), Records: records}
	encoded.Length = int32(len(encoded.AppendTo(nil)) - 12)
	encoded.CRC = int32(crc32.Checksum(encoded.AppendTo(nil)[21:], crc32.MakeTable(crc32.Castagnoli)))
	return encoded.AppendTo(nil)
}

func TestTheEmbeddedBrokerIsFollowed(t *testing.T) {
	client := kafkatest.Client(t, kafkatest.Embedded(t))
	wanted := topic.Topic{Name: "blocklist", Partitions: 1, Settings: map[string]string{"cleanup.policy": "delete", "retention.ms": "3600000"}}
	if err := client.EnsureTopics(t.Context(), wanted); err != nil {
		t.Fatal(err)
	}
	producer := client.OpenProducer(topic.AppenderConfig{Topic: wanted.Name, Partitions: 1})
	t.Cleanup(func() { _ = producer.Close(context.Background()) })
	set, f := following(t, client, wanted.Name)
	key, value := entry(t, "1.1.1.1", 1)
	send(t, producer, key, value)
	key, value = mark(t, 1)
	send(t, producer, key, value)
	wait.Until(t, "the list is whole", set.Whole)
	blockedSoon(t, set, "1.1.1.1")
	key, value = entry(t, "2.2.2.2", 2)
	send(t, producer, key, value)
	blockedSoon(t, set, "2.2.2.2")
	if got := f.Status(); got.Trouble != "" || got.Filling {
		t.Errorf("%+v", got)
	}
}

// TestLogsThatARealCleanerCompacted follows a topic of a real Kafka while its cleaner runs, and then once more from its start.
func TestLogsThatARealCleanerCompacted(t *testing.T) {
	real.Long(t)
	cluster := kafkatest.Real(t, kafkatest.Options{})
	client := kafkatest.Client(t, kafka.Config{Brokers: cluster.Addresses(), Create: true})
	wanted := topic.Topic{Name: "blocklist", Partitions: 1, Settings: map[string]string{"cleanup.policy": "compact",
		"segment.ms": "1000", "min.cleanable.dirty.ratio": "0.001", "max.compaction.lag.ms": "1000"}}
	if err := client.EnsureTopics(t.Context(), wanted); err != nil {
		t.Fatal(err)
	}
	producer := client.OpenProducer(topic.AppenderConfig{Topic: wanted.Name, Partitions: 1})
	t.Cleanup(func() { _ = producer.Close(context.Background()) })
	set, _ := following(t, client, wanted.Name)
	want := map[string]string{}
	sent := int64(0)
	begun := time.Now()
	for begun.Add(25 * time.Second).After(time.Now()) {
		for i := range 200 {
			name := fmt.Sprint((int(sent) + i*i) % 97)
			key, value := entry(t, name, sent)
			want[name] = fmt.Sprint(name, sent)
			send(t, producer, key, value)
			sent++
		}
		key, value := mark(t, sent)
		send(t, producer, key, value)
		sent++
		time.Sleep(200 * time.Millisecond) // segments are closed by time
	}
	wait.Until(t, "all is read", func() bool { return set.Version().Offset == sent-1 })
	again, f := following(t, client, wanted.Name)
	wait.Until(t, "it is whole", again.Whole)
	if got := again.Version(); got != set.Version() {
		t.Errorf("%v and %v", got, set.Version())
	}
	for _, one := range []*blocklist.Set{set, again} {
		found := keys(one)
		for key, id := range want {
			if found[key] != id {
				t.Errorf("%s is %q, want %q", key, found[key], id)
			}
		}
	}
	t.Logf("%d records were sent, %+v", sent, f.Status())
}

func pack(codec compress.Compression, records []byte) []byte {
	var packed writer
	w := codec.Codec().NewWriter(&packed)
	_, _ = w.Write(records)
	_ = w.Close()
	return packed
}

type writer []byte

func (w *writer) Write(b []byte) (int, error) {
	*w = append(*w, b...)
	return len(b), nil
}
