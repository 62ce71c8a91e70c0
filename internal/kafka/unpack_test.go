package kafka

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/segmentio/kafka-go/compress"
	"github.com/segmentio/kafka-go/protocol"

	"weir/internal/topic"
)

// packed returns a batch of values as kafka-go writes it.
func packed(t testing.TB, codec compress.Compression, values ...[]byte) []byte {
	t.Helper()
	records := make([]protocol.Record, len(values))
	for i, value := range values {
		records[i] = protocol.Record{Offset: int64(i), Value: protocol.NewBytes(value)}
	}
	set := protocol.RecordSet{Version: 2, Attributes: protocol.Attributes(codec), Records: protocol.NewRecordReader(records...)}
	var b bytes.Buffer
	if _, err := set.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()[4:]
}

// repacked returns a batch with other packed bytes.
func repacked(batch, with []byte) []byte {
	b := append(slices.Clone(batch[:batchHeader]), with...)
	binary.BigEndian.PutUint32(b[batchLength-4:], uint32(len(b)-batchLength))
	sign(b)
	return b
}

// fetches reads an answer as Fetch does, again and again until nothing of it is left, and passes the records of each
// call to a function.
func (r *Reader) fetches(t testing.TB, batches []byte, each func([]topic.Record)) {
	t.Helper()
	if err := r.read(&answer{found: true, batches: batches}); err != nil {
		t.Fatal(err)
	}
	each(r.records)
	for r.packed != nil {
		if err := r.goOn(); err != nil {
			t.Fatal(err)
		}
		each(r.records)
	}
}

// All records of a batch arrive, for every codec and size of record, in as many Fetches as needed.
func TestLargeBatchesComeInPieces(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, codec := range codecs[1:] {
		for _, most := range []int{0, 100, 5000, 300_000, 3 << 20} {
			var values [][]byte
			for total := 0; total < 5<<20; {
				value := bytes.Repeat([]byte{byte(random.IntN(256)), byte(len(values))}, random.IntN(most+1)/2)
				values = append(values, value)
				if total += len(value) + 1; len(values) == 20_000 {
					break
				}
			}
			one := packed(t, codec, values...)
			r, got, fetches := Reader{MaxBytes: 100_000}, 0, 0
			last := int64(len(values))
			r.fetches(t, slices.Concat(one, at(last, one)), func(records []topic.Record) {
				if len(records) == 0 {
					t.Fatalf("%v: a Fetch has none", codec)
				}
				bytesOf := 0
				for _, record := range records {
					if record.Offset != int64(got) || !bytes.Equal(record.Value, values[got%len(values)]) {
						t.Fatalf("%v, up to %d bytes: record %d is %d", codec, most, got, record.Offset)
					}
					bytesOf += len(record.Value)
					got++
				}
				if fetches++; bytesOf > 100_000+most {
					t.Fatalf("%v: a Fetch has %d bytes", codec, bytesOf)
				}
			})
			if got != 2*len(values) || r.next != 2*last {
				t.Fatalf("%v: %d of %d records, then %d", codec, got, 2*len(values), r.next)
			}
		}
	}
}

// A few kilobytes that unpack to hundreds of megabytes take little memory, as one record, as some large ones, or as
// incomplete ones; the records after them are read.
func TestFewBytesThatUnpackToMany(t *testing.T) {
	zeros := func(n int) []byte { return make([]byte, n) }
	for name, c := range map[string]struct {
		values [][]byte
		long   int
	}{
		"one record":     {[][]byte{[]byte("before"), zeros(200 << 20), []byte("behind")}, 1},
		"some":           {[][]byte{zeros(15 << 20), zeros(17 << 20), zeros(15 << 20), zeros(17 << 20)}, 2},
		"many":           {slices.Repeat([][]byte{zeros(1 << 20)}, 200), 0},
		"too many":       {slices.Repeat([][]byte{zeros(10 << 20)}, 30), 1},
		"an endless one": {[][]byte{zeros(300 << 20)}, 1},
	} {
		for _, codec := range []compress.Compression{compress.Gzip, compress.Lz4, compress.Zstd} {
			t.Run(fmt.Sprint(name, codec), func(t *testing.T) {
				one := packed(t, codec, c.values...)
				behind := at(int64(len(c.values)), packed(t, codec, []byte("the next")))
				runtime.GC()
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				r, long, last := Reader{MaxBytes: 1 << 20}, 0, topic.Record{}
				next := int64(0)
				r.fetches(t, slices.Concat(one, behind), func(records []topic.Record) {
					for _, record := range records {
						if record.Offset < next || !record.Long && record.Offset < int64(len(c.values)) && len(record.Value) != len(c.values[record.Offset]) {
							t.Fatalf("record %d has %d bytes", record.Offset, len(record.Value))
						}
						if next = record.Offset + 1; record.Long {
							long++
						}
						last = record
					}
				})
				runtime.ReadMemStats(&after)
				if long != c.long || string(last.Value) != "the next" || last.Offset != int64(len(c.values)) {
					t.Errorf("%d long ones, then %q at %d", long, last.Value, last.Offset)
				}
				if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 80 {
					t.Errorf("%d MiB were asked for, for %d packed ones", took, len(one)>>20)
				}
			})
		}
	}
}

// A false size in a header costs nothing.
func TestClaimsOfPackedBatches(t *testing.T) {
	var wide bytes.Buffer
	w, err := zstd.NewWriter(&wide, zstd.WithWindowSize(256<<20))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := w.Write([]byte("a little")); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	claim := binary.AppendUvarint(nil, 1<<31)
	framed := append([]byte(xerialMagic), 0, 0, 0, 1, 0, 0, 0, 1)
	for name, c := range map[string]struct {
		codec compress.Compression
		bytes []byte
		want  string
	}{
		"not packed so":         {compress.Gzip, []byte("not gzip"), "unpacking gzip"},
		"a zstd window":         {compress.Zstd, wide.Bytes(), "a window of 256 MiB"},
		"a snappy block":        {compress.Snappy, append(claim, 1, 2, 3), "it is not snappy"},
		"a framed snappy block": {compress.Snappy, slices.Concat(framed, []byte{0, 0, 0, 8}, claim, []byte{1, 2, 3}), "it is not snappy"},
		"a snappy frame":        {compress.Snappy, slices.Concat(framed, []byte{0x7f, 0, 0, 0}, snappy.Encode(nil, []byte("x"))), "it is not snappy"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := Reader{}
		err := r.read(&answer{found: true, batches: repacked(packed(t, c.codec, []byte("x")), c.bytes)})
		runtime.ReadMemStats(&after)
		if err != nil || len(r.records) != 1 || !r.records[0].Long || !strings.Contains(string(r.records[0].Value), c.want) || r.next != 1 {
			t.Errorf("%s: %v, %v", name, err, r.records)
		}
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 16 {
			t.Errorf("%s: %d MiB were asked for", name, took)
		}
	}
}

// A wanted record is found, however much of its batch comes before it.
func TestTheLastOfALargeBatch(t *testing.T) {
	values := slices.Repeat([][]byte{bytes.Repeat([]byte("x"), 1000)}, 5000)
	for _, codec := range codecs {
		r := Reader{MaxBytes: 1, next: 4999}
		if err := r.read(&answer{found: true, batches: packed(t, codec, values...)}); err != nil || len(r.records) != 1 || r.records[0].Offset != 4999 {
			t.Errorf("%v: %v, %d records", codec, err, len(r.records))
		}
	}
}
