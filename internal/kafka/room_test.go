package kafka

import (
	"context"
	"errors"
	"testing"

	"github.com/segmentio/kafka-go/compress"

	"weir/internal/topic"
)

// Sixteen partitions have three records of 15 MiB each in a few kilobytes. Only some of their Readers have one in
// memory at a time; the others wait, and all records arrive.
func TestLongRecordsShareRoom(t *testing.T) {
	const partitions, size = 16, 15 << 20
	batch := packed(t, compress.Zstd, make([]byte, 100), make([]byte, size), make([]byte, size), make([]byte, 100), make([]byte, size))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	client := &Client{room: newRoom()}
	var readers [partitions]Reader
	var got [partitions]int
	var long [partitions]bool // the last Fetch returned such a record
	took := func(i int, records []topic.Record) {
		long[i] = false
		for _, record := range records {
			if record.Offset != int64(got[i]) || record.Long {
				t.Fatalf("partition %d: record %d is %d", i, got[i], record.Offset)
			}
			long[i] = long[i] || len(record.Value) == size
			got[i]++
		}
	}
	for i := range readers {
		readers[i] = Reader{MaxBytes: 1 << 20, SharesRoom: true, client: client}
		if err := readers[i].read(&answer{found: true, batches: batch}); err != nil {
			t.Fatal(err)
		}
		took(i, readers[i].records)
	}

	for range 3 * partitions / LongRecords {
		inMemory := 0
		for i := range readers {
			r := &readers[i]
			for r.packed != nil && !long[i] {
				if r.NeedsRoom() && len(client.room) == 0 { // the others have it
					if err := r.MakeRoom(over); !errors.Is(err, context.Canceled) {
						t.Fatal("it does not wait:", err)
					}
					break
				}
				if err := r.MakeRoom(t.Context()); err != nil {
					t.Fatal(err)
				}
				records, err := r.Fetch(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				took(i, records)
			}
			if long[i] {
				inMemory++
			}
		}
		if inMemory > LongRecords {
			t.Fatalf("%d long records are in memory", inMemory)
		}
		for i := range readers {
			if long[i] {
				readers[i].GiveRoom()
				long[i] = false
			}
		}
	}

	for i := range readers {
		if got[i] != 5 || readers[i].hasRoom {
			t.Errorf("partition %d: %d of 5 records", i, got[i])
		}
	}
	if free := len(client.room); free != LongRecords {
		t.Errorf("%d of %d places are free", free, LongRecords)
	}
}
