package kafka

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/topic"
)

// FuzzBatches reads batches that no producer wrote, under a valid checksum. Nothing panics; well-formed batches read as
// franz-go reads them; and a good batch before them is always read.
func FuzzBatches(f *testing.F) {
	for _, codec := range codecs {
		one := written(f, codec)
		f.Add(one)
		f.Add(slices.Concat(one, one, one[:len(one)/2]))
	}
	good := written(f, 0)
	f.Fuzz(func(t *testing.T, b []byte) {
		sign(b)
		r := Reader{}
		err := r.readBatches(b)
		behind(t, good, b)
		for _, record := range r.records {
			if record.Offset >= r.next {
				t.Fatalf("offset %d, and next is %d", record.Offset, r.next)
			}
		}
		if err != nil {
			return
		}
		if want, ok := readByFranz(b); ok && !slices.EqualFunc(r.records, want, same) {
			t.Fatalf("%v, want %v", r.records, want)
		}
	})
}

// behind reads batches after a good one of offsets 0 to 2: the result equals that of a reader that starts after the
// good one.
func behind(t *testing.T, good, b []byte) {
	t.Helper()
	both, alone := Reader{}, Reader{next: 3}
	if err := both.read(&answer{found: true, batches: slices.Concat(good, b)}); err != nil || len(both.records) < 3 {
		t.Fatalf("%v, and then %v", both.records, err)
	}
	alone.read(&answer{found: true, batches: b})
	if !slices.EqualFunc(both.records[3:], alone.records, same) || both.next != alone.next {
		t.Fatalf("%v, and then %d; by themselves %v, and then %d", both.records, both.next, alone.records, alone.next)
	}
}

// sign gives every batch its valid checksum.
func sign(b []byte) {
	for len(b) >= batchHeader {
		size := batchLength + int(int32(binary.BigEndian.Uint32(b[8:])))
		if size < batchHeader || size > len(b) {
			return
		}
		binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[batchSummed:size], castagnoli))
		b = b[size:]
	}
}

func same(a, b topic.Record) bool {
	return a.Offset == b.Offset && a.Time.Equal(b.Time) && bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) && (a.Value == nil) == (b.Value == nil)
}

// readByFranz returns the records that franz-go's kmsg reads from uncompressed batches in order.
func readByFranz(b []byte) (records []topic.Record, ok bool) {
	var next int64
	for len(b) >= batchHeader {
		size := batchLength + int(int32(binary.BigEndian.Uint32(b[8:])))
		if size > len(b) {
			return records, true
		}
		var batch kmsg.RecordBatch
		if batch.ReadFrom(b[:size]) != nil || batch.Attributes != 0 || batch.FirstOffset < next {
			return nil, false
		}
		b = b[size:]
		for left := batch.Records; batch.NumRecords > 0; batch.NumRecords-- {
			var record kmsg.Record
			length, n := binary.Varint(left)
			if n <= 0 || length < 0 || length > int64(len(left)-n) || record.ReadFrom(left[:n+int(length)]) != nil || !bytes.Equal(record.AppendTo(nil), left[:n+int(length)]) {
				return nil, false
			}
			left = left[n+int(length):]
			offset := batch.FirstOffset + int64(record.OffsetDelta)
			if offset < next || record.OffsetDelta > batch.LastOffsetDelta { // a producer may have written anything there
				return nil, false
			}
			records = append(records, topic.Record{Offset: offset, Time: time.UnixMilli(batch.FirstTimestamp + record.TimestampDelta64), Key: record.Key, Value: record.Value})
			next = offset + 1
		}
		next = max(next, batch.FirstOffset+int64(batch.LastOffsetDelta)+1)
	}
	return records, true
}
