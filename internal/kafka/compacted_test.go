package kafka_test

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/compress"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/kafka/kafkatest"
	"weir/internal/topic"
)

// A cleaned log is a log after the log cleaner: segments of batches, from which records and complete batches are
// missing.
type cleaned struct {
	segments [][]cleanedBatch
	end      int64 // the high watermark
}

type cleanedBatch struct {
	base, last int64   // the offsets it had before the cleaning
	kept       []int64 // the offsets it has now
	codec      compress.Compression
}

// serve answers fetches of the topic's one partition as Kafka would: complete batches of one segment, from the first
// that reaches the wanted offset.
func (c cleaned) serve(cluster *kfake.Cluster) (fetches func() int) {
	var mu sync.Mutex
	count := 0
	cluster.ControlKey(int16(kmsg.Fetch), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		mu.Lock()
		count++
		mu.Unlock()
		fetch := request.(*kmsg.FetchRequest)
		asked := fetch.Topics[0].Partitions[0]
		response := fetch.ResponseKind().(*kmsg.FetchResponse)
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic = fetch.Topics[0].Topic
		partition := kmsg.NewFetchResponseTopicPartition()
		partition.HighWatermark, partition.LastStableOffset = c.end, c.end
		partition.RecordBatches = c.from(asked.FetchOffset, int(asked.PartitionMaxBytes))
		topic.Partitions = append(topic.Partitions, partition)
		response.Topics = append(response.Topics, topic)
		return response, nil, true
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return count
	}
}

func (c cleaned) from(offset int64, maxBytes int) []byte {
	for _, segment := range c.segments {
		var answer []byte
		for _, batch := range segment {
			if batch.last < offset {
				continue
			}
			encoded := batch.encode()
			if len(answer) > 0 && len(answer)+len(encoded) > maxBytes {
				break
			}
			answer = append(answer, encoded...)
		}
		if answer != nil {
			return answer
		}
	}
	return nil
}

func (b cleanedBatch) encode() []byte {
	var records []byte
	for _, offset := range b.kept {
		record := kmsg.Record{OffsetDelta: int32(offset - b.base), Key: fmt.Appendf(nil, "k%d", offset), Value: []byte("v")}
		record.Length = int32(len(record.AppendTo(nil)) - 1)
		records = record.AppendTo(records)
	}
	if b.codec != 0 {
		var packed bytes.Buffer
		writer := b.codec.Codec().NewWriter(&packed)
		writer.Write(records)
		writer.Close()
		records = packed.Bytes()
	}
	batch := kmsg.RecordBatch{FirstOffset: b.base, Magic: 2, Attributes: int16(b.codec), LastOffsetDelta: int32(b.last - b.base),
		FirstTimestamp: time.Now().UnixMilli(), MaxTimestamp: time.Now().UnixMilli(), ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
		NumRecords: int32(len(b.kept)), Records: records}
	encoded := batch.AppendTo(nil)
	batch.Length = int32(len(encoded) - 12)
	batch.CRC = int32(crc32.Checksum(batch.AppendTo(nil)[21:], crc32.MakeTable(crc32.Castagnoli)))
	return batch.AppendTo(nil)
}

func (c cleaned) offsets() []int64 {
	var all []int64
	for _, segment := range c.segments {
		for _, batch := range segment {
			all = append(all, batch.kept...)
		}
	}
	return all
}

const snappy = compress.Snappy

func empty(base, last int64) cleanedBatch { return cleanedBatch{base: base, last: last} }

func TestCompactedShapes(t *testing.T) {
	many := int64(300_000)
	shapes := map[string]cleaned{
		"gaps inside batches": {end: 30, segments: [][]cleanedBatch{{
			{base: 0, last: 9, kept: []int64{1, 4, 7}}, {base: 10, last: 19, kept: []int64{12, 19}}, {base: 20, last: 29, kept: []int64{20, 29}}}}},
		"a hole at a segment's end": {end: 20, segments: [][]cleanedBatch{
			{{base: 0, last: 9, kept: []int64{0, 1, 2}}}, {{base: 10, last: 19, kept: []int64{11, 19}}}}},
		"a hole at a segment's end, snappy": {end: 20, segments: [][]cleanedBatch{
			{{base: 0, last: 9, kept: []int64{0, 1, 2}, codec: snappy}}, {{base: 10, last: 19, kept: []int64{11, 19}, codec: snappy}}}},
		"an empty batch between others": {end: 30, segments: [][]cleanedBatch{{
			{base: 0, last: 9, kept: []int64{3}}, empty(10, 19), {base: 20, last: 29, kept: []int64{29}}}}},
		"two empty batches in a row": {end: 40, segments: [][]cleanedBatch{{
			{base: 0, last: 9, kept: []int64{3}}, empty(10, 19), empty(20, 29), {base: 30, last: 39, kept: []int64{39}}}}},
		"a segment of empty batches": {end: 40, segments: [][]cleanedBatch{
			{{base: 0, last: 9, kept: []int64{3}}}, {empty(10, 19), empty(20, 29)}, {{base: 30, last: 39, kept: []int64{39}}}}},
		"a hole of 300,000, snappy": {end: many + 20, segments: [][]cleanedBatch{
			{{base: 0, last: 9, kept: []int64{0, 9}, codec: snappy}, {base: many + 10, last: many + 19, kept: []int64{many + 19}, codec: snappy}}}},
		"nothing left before the end": {end: 20, segments: [][]cleanedBatch{{{base: 0, last: 9, kept: []int64{0}}}}},
	}
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) { readCleaned(t, shape, 0) })
	}
}

// readCleaned reads a cleaned log and compares the result with its contents.
func readCleaned(t *testing.T, shape cleaned, maxBytes int) {
	t.Helper()
	cluster, config := fake(t, kfake.SeedTopics(1, "log"))
	fetches := shape.serve(cluster)
	client := kafkatest.Client(t, config)
	reader := client.NewReader("log", 0, 0)
	reader.MaxBytes = maxBytes
	var got []int64
	for reader.Next() < shape.end {
		records, err := reader.Fetch(within(t, time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if fetches() > 60 {
			t.Fatalf("%d fetches, and it is at %d of %d", fetches(), reader.Next(), shape.end)
		}
		for _, r := range records {
			if string(r.Key) != fmt.Sprintf("k%d", r.Offset) {
				t.Fatalf("the record at %d has key %q", r.Offset, r.Key)
			}
			got = append(got, r.Offset)
		}
	}
	if want := shape.offsets(); !slices.Equal(got, want) {
		t.Fatalf("read %v of %v", got, want)
	}
}

// TestCompactedModel reads logs that are cleaned at random, with answers of one batch and of many.
func TestCompactedModel(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			readCleaned(t, cleanAtRandom(random), []int{1, 400, 1 << 20}[random.IntN(3)])
		})
	}
}

func cleanAtRandom(random *rand.Rand) cleaned {
	var log cleaned
	for range 1 + random.IntN(3) {
		var segment []cleanedBatch
		for range random.IntN(4) {
			batch := cleanedBatch{base: log.end, last: log.end + int64(random.IntN(5))}
			for offset := batch.base; offset <= batch.last; offset++ {
				if random.IntN(3) == 0 {
					batch.kept = append(batch.kept, offset)
				}
			}
			if batch.kept != nil && random.IntN(2) == 0 {
				batch.codec = snappy
			}
			log.end = batch.last + 1
			if random.IntN(4) > 0 {
				segment = append(segment, batch)
			}
		}
		log.segments = append(log.segments, segment)
	}
	log.end++ // the active segment, which is never cleaned
	log.segments = append(log.segments, []cleanedBatch{{base: log.end - 1, last: log.end - 1, kept: []int64{log.end - 1}}})
	return log
}

// TestCompactedOnKafka reads a log of Kafka while Kafka's own cleaner works on it.
func TestCompactedOnKafka(t *testing.T) {
	t.Parallel()
	client := kafkatest.Client(t, onReal(t))
	name := newTopic(t, client, 1, "cleanup.policy=compact", "segment.ms=1000", "min.cleanable.dirty.ratio=0.001", "max.compaction.lag.ms=1000")
	producer := client.OpenProducer(topic.AppenderConfig{Topic: name, Partitions: 1})
	ctx := within(t, 5*time.Minute)
	const keys = 97
	latest := map[string]string{}
	deadline := time.Now().Add(4 * time.Minute)
	for round := 0; ; round++ {
		var batch []topic.Message
		for i := range 300 {
			key, value := fmt.Sprintf("key-%d", (i*i+round)%keys), fmt.Sprintf("%d.%d", round, i)
			latest[key] = value
			batch = append(batch, topic.Message{Key: []byte(key), Value: []byte(value)})
		}
		if err := producer.Send(ctx, batch...); err != nil {
			t.Fatal(err)
		}
		if round%5 != 0 {
			continue
		}
		records := readAll(t, client, name, 0, 0)
		if written := 300 * round; round > 20 && len(records) < written/4 {
			t.Logf("%d of %d records were left after %d rounds", len(records), written, round)
			break // much was cleaned away
		}
		if time.Now().After(deadline) {
			t.Fatalf("the cleaner has left %d of %d records", len(records), 300*round)
		}
	}
	if err := producer.Close(ctx); err != nil {
		t.Fatal(err)
	}
	got, last := map[string]string{}, int64(-1)
	for _, r := range readAll(t, client, name, 0, 0) {
		if r.Offset <= last {
			t.Fatalf("offset %d after %d", r.Offset, last)
		}
		got[string(r.Key)], last = string(r.Value), r.Offset
	}
	for key, value := range latest {
		if got[key] != value {
			t.Errorf("%s is %q, and was written %q", key, got[key], value)
		}
	}
}
