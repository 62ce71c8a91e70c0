package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/segmentio/kafka-go/compress"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/topic"
)

var codecs = []compress.Compression{0, compress.Gzip, compress.Snappy, compress.Lz4, compress.Zstd}

const someTime = 1_700_000_000_000 // Unix ms

// written is a batch as kafka-go writes it.
func written(t testing.TB, attributes compress.Compression) []byte {
	t.Helper()
	set := protocol.RecordSet{Version: 2, Attributes: protocol.Attributes(attributes), Records: protocol.NewRecordReader(
		protocol.Record{Offset: 0, Time: time.UnixMilli(someTime), Key: protocol.NewBytes([]byte("a key")), Value: protocol.NewBytes([]byte("a value"))},
		protocol.Record{Offset: 1, Time: time.UnixMilli(someTime + 5), Value: protocol.NewBytes([]byte{}), Headers: []protocol.Header{{Key: "h", Value: []byte("v")}}},
		protocol.Record{Offset: 2, Time: time.UnixMilli(someTime - 5), Key: protocol.NewBytes([]byte{})},
	)}
	var b bytes.Buffer
	if _, err := set.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()[4:]
}

// at moves a batch to another offset.
func at(offset int64, b []byte) []byte {
	b = slices.Clone(b)
	binary.BigEndian.PutUint64(b, uint64(offset))
	return b
}

func TestBatchesOfEveryCodec(t *testing.T) {
	want := []topic.Record{
		{Offset: 0, Time: time.UnixMilli(someTime), Key: []byte("a key"), Value: []byte("a value")},
		{Offset: 1, Time: time.UnixMilli(someTime + 5), Value: []byte{}},
		{Offset: 2, Time: time.UnixMilli(someTime - 5), Key: []byte{}},
	}
	for _, codec := range codecs {
		one := written(t, codec)
		r := Reader{next: 1}
		if err := r.readBatches(slices.Concat(one, at(10, one), one[:40])); err != nil {
			t.Fatalf("%v: %v", codec, err)
		}
		both := slices.Clone(want[1:])
		for _, record := range want {
			record.Offset += 10
			both = append(both, record)
		}
		if !slices.EqualFunc(r.records, both, same) || r.next != 13 {
			t.Errorf("%v: %v, and then %d", codec, r.records, r.next)
		}
	}
}

func TestTheTimeOfTheBroker(t *testing.T) {
	one := written(t, 0)
	binary.BigEndian.PutUint16(one[21:], timeOfBroker)
	binary.BigEndian.PutUint64(one[35:], someTime+99)
	sign(one)
	r := Reader{}
	if err := r.readBatches(one); err != nil || len(r.records) != 3 || r.records[0].Time.UnixMilli() != someTime+99 || r.records[2].Time.UnixMilli() != someTime+99 {
		t.Error(err, r.records)
	}
}

func TestControlBatchesArePassedOver(t *testing.T) {
	one := written(t, 0)
	binary.BigEndian.PutUint16(one[21:], uint16(protocol.Control|protocol.Transactional))
	sign(one)
	r := Reader{}
	if err := r.readBatches(one); err != nil || len(r.records) != 0 || r.next != 3 {
		t.Error(err, r.records, r.next)
	}
}

func TestDamagedBatches(t *testing.T) {
	one := written(t, 0)
	change := func(at int, to byte) []byte {
		b := slices.Clone(one)
		b[at] = to
		return b
	}
	signed := func(b []byte) []byte {
		sign(b)
		return b
	}
	for name, c := range map[string]struct {
		bytes []byte
		want  string
	}{
		"a byte is another":        {change(70, 0xff), "at 0: its checksum does not match"},
		"before Kafka 0.11":        {change(16, 1), "form 1 cannot be read"},
		"a short one of then":      {slices.Concat(change(11, 28)[:16], []byte{1}, one[:23]), "form 1 cannot be read"},
		"part of one":              {one[:70], "70 bytes of a batch"},
		"shorter than its head":    {change(11, 9), "a batch of 21 bytes"},
		"more records than it has": {signed(change(60, 4)), "a record ends too early"},
		"an unknown codec":         {signed(change(22, 7)), "compression 7 is not known"},
	} {
		r := Reader{}
		err := r.readBatches(c.bytes)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestGoodBatchesBeforeADamagedOne damages the second or third batch of an answer. The batches before it are read,
// nothing of it or after it is, and every answer that begins with it is an error.
func TestGoodBatchesBeforeADamagedOne(t *testing.T) {
	good := written(t, 0)
	control := at(3, good)
	binary.BigEndian.PutUint16(control[21:], uint16(protocol.Control))
	sign(control)
	for name, damage := range map[string]func(b []byte){
		"a byte is another":        func(b []byte) { b[70] ^= 1 },
		"more records than it has": func(b []byte) { b[60] = 4; sign(b) },
		"an unknown codec":         func(b []byte) { b[22] = 7; sign(b) },
		"shorter than its head":    func(b []byte) { b[11] = 9 },
		"before Kafka 0.11":        func(b []byte) { b[16] = 1 },
	} {
		damaged := at(6, good)
		damage(damaged)
		behind := slices.Concat(damaged, at(9, good))
		r := Reader{next: 1}
		if err := r.read(&answer{found: true, span: topic.Span{End: 12}, batches: slices.Concat(good, control, behind)}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(r.records) != 2 || r.records[0].Offset != 1 || r.records[1].Offset != 2 || r.next != 6 || r.span.End != 12 {
			t.Fatalf("%s: %v of %v, and then %d", name, r.records, r.span, r.next)
		}
		for range 2 {
			if err := r.read(&answer{found: true, span: topic.Span{End: 12}, batches: behind}); err == nil || len(r.records) != 0 || r.next != 6 {
				t.Fatalf("%s: %v, %v, and then %d", name, err, r.records, r.next)
			}
		}
		if err := r.read(&answer{found: true, span: topic.Span{End: 12}, batches: slices.Concat(at(6, good), at(9, good))}); err != nil || len(r.records) != 6 || r.next != 12 {
			t.Fatalf("%s, mended: %v, %v, and then %d", name, err, r.records, r.next)
		}
	}
}

// TestAFetchOfADamagedBatch makes a broker answer with a good batch and a damaged one until it is repaired.
func TestAFetchOfADamagedBatch(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	good := written(t, 0)
	damaged := at(3, good)
	damaged[70] ^= 1
	var mended atomic.Bool
	cluster.ControlKey(int16(kmsg.Fetch), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		partition := kmsg.NewFetchResponseTopicPartition()
		partition.HighWatermark, partition.RecordBatches = 6, damaged
		if mended.Load() {
			partition.RecordBatches = at(3, good)
		}
		if request.(*kmsg.FetchRequest).Topics[0].Partitions[0].FetchOffset < 3 {
			partition.RecordBatches = slices.Concat(good, partition.RecordBatches)
		}
		response := request.ResponseKind().(*kmsg.FetchResponse)
		response.Topics = []kmsg.FetchResponseTopic{{Topic: "log", Partitions: []kmsg.FetchResponseTopicPartition{partition}}}
		return response, nil, true
	})
	client, err := Open(Config{Brokers: cluster.ListenAddrs()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	reader := client.NewReader("log", 0, 0)
	if records, err := reader.Fetch(t.Context()); err != nil || len(records) != 3 || reader.Next() != 3 {
		t.Fatal(records, err)
	}
	for range 2 {
		if records, err := reader.Fetch(t.Context()); err == nil || !strings.Contains(err.Error(), "the batch at 3") || len(records) != 0 || reader.Next() != 3 {
			t.Fatal(records, err)
		}
	}
	if counted := testutil.ToFloat64(client.errorLog.total.WithLabelValues("fetch", topic.ErrOther.Error())); counted != 2 {
		t.Errorf("%v faults were counted", counted)
	}
	mended.Store(true)
	if records, err := reader.Fetch(t.Context()); err != nil || len(records) != 3 || reader.Next() != 6 {
		t.Fatal(records, err)
	}
}

// TestUnpackedBytesAreUsedAgain reads compressed answers from the same memory; their records are valid until the next
// answer.
func TestUnpackedBytesAreUsedAgain(t *testing.T) {
	one := written(t, compress.Snappy)
	answered := slices.Concat(one, at(10, one), at(20, one))
	r := Reader{}
	var memory *byte
	for n := range 50 {
		r.next = 0
		if err := r.read(&answer{found: true, span: topic.Span{End: 23}, batches: answered}); err != nil || len(r.records) != 9 {
			t.Fatal(err, r.records)
		}
		for i := range r.records {
			if i%3 == 0 && string(r.records[i].Value) != "a value" {
				t.Fatalf("record %d has become %q", i, r.records[i].Value)
			}
		}
		if n == 0 {
			memory = &r.unpacked[0]
		} else if memory != &r.unpacked[0] {
			t.Fatalf("other memory is used for answer %d", n)
		}
	}
}

// TestAnswersThatEndTooEarly cuts an answer off at every byte.
func TestAnswersThatEndTooEarly(t *testing.T) {
	b := binary.BigEndian.AppendUint32(nil, 7) // throttled, ms
	b = append(b, 0, 0, 0, 0, 0, 0)            // error, session
	b = append(b, 0, 0, 0, 1, 0, 3, 'l', 'o', 'g', 0, 0, 0, 1)
	b = append(b, 0, 0, 0, 0, 0, 0)          // partition, error
	b = binary.BigEndian.AppendUint64(b, 30) // end
	b = binary.BigEndian.AppendUint64(b, 30) // last stable
	b = binary.BigEndian.AppendUint64(b, 20) // start
	b = append(b, 0, 0, 0, 1)                // aborted transactions
	b = append(b, make([]byte, 16)...)       // one of them
	b = append(b, 0xff, 0xff, 0xff, 0xff)    // replica
	b = append(b, 0, 0, 0, 2, 'a', 'b')      // batches
	got, err := readAnswer(b, 11)
	if err != nil || !got.found || got.span != (topic.Span{Start: 20, End: 30}) || string(got.batches) != "ab" || got.throttle != 7*time.Millisecond {
		t.Fatalf("%+v %v", got, err)
	}
	for n := range b {
		if got, err := readAnswer(b[:n], 11); !errors.Is(err, errAnswer) {
			t.Fatalf("%d bytes: %+v %v", n, got, err)
		}
	}
	none, err := readAnswer(append(b[:10:10], 0, 0, 0, 0), 11)
	if err != nil || none.found || none.throttle != 7*time.Millisecond {
		t.Errorf("%+v %v", none, err)
	}
}

// BenchmarkRecords measures reading a record of a log's line, with the checksum, as Readers and as kafka-go do it:
//
//	go test ./internal/kafka -run '^$' -bench Records
func BenchmarkRecords(b *testing.B) {
	lines := make([]protocol.Record, 1000)
	for i := range lines {
		lines[i] = protocol.Record{Offset: int64(i), Time: time.UnixMilli(someTime), Value: protocol.NewBytes(bytes.Repeat([]byte("x"), 250))}
	}
	var encoded bytes.Buffer
	if _, err := (&protocol.RecordSet{Version: 2, Records: protocol.NewRecordReader(lines...)}).WriteTo(&encoded); err != nil {
		b.Fatal(err)
	}
	b.Run("weir", func(b *testing.B) {
		b.ReportAllocs()
		r := Reader{}
		for n := 0; n < b.N; n += len(lines) {
			r.next, r.records = 0, r.records[:0]
			if err := r.readBatches(encoded.Bytes()[4:]); err != nil || len(r.records) != len(lines) {
				b.Fatal(err, len(r.records))
			}
		}
	})
	b.Run("kafka-go", func(b *testing.B) {
		b.ReportAllocs()
		buffer := make([]byte, 250)
		for n := 0; n < b.N; {
			var set protocol.RecordSet
			if _, err := set.ReadFrom(bytes.NewReader(encoded.Bytes())); err != nil {
				b.Fatal(err)
			}
			for {
				record, err := set.Records.ReadRecord()
				if err != nil {
					break
				}
				if _, err := io.ReadFull(record.Value, buffer); err != nil {
					b.Fatal(err)
				}
				record.Value.Close()
				n++
			}
		}
	})
}
