package sink

import (
	"slices"
	"testing"
	"time"

	"weir/pkg/hit"
)

// The limit of a textbook, and its lateness.
const (
	Limit = 60
	Per   = time.Hour
	Late  = 10 * time.Minute
)

// A Textbook counts the sent hits in their order with a sliding log. Hits that are more than the lateness older than
// the newest of their key do not count.
type Textbook struct {
	t              testing.TB
	sink           *Memory
	read           []int // records, by partition
	positions      []*hit.Positions
	times          map[string][]int64
	newest         map[string]int64
	Hits, TooLate  int
	reader         hit.Reader
	FurthestBehind time.Duration
}

// NewTextbook makes one that reads a topic.
func NewTextbook(t testing.TB, sink *Memory) *Textbook {
	b := &Textbook{t: t, sink: sink, read: make([]int, len(sink.Partitions)), times: map[string][]int64{}, newest: map[string]int64{}}
	for range sink.Partitions {
		b.positions = append(b.positions, hit.NewPositions(1000, 48*time.Hour))
	}
	return b
}

// Count counts the hits sent since the last call, and returns the number of hits so far.
func (b *Textbook) Count() int {
	b.sink.mu.Lock()
	defer b.sink.mu.Unlock()
	for p, records := range b.sink.Partitions {
		for _, record := range records[b.read[p]:] {
			b.take(p, record)
		}
		b.read[p] = len(records)
	}
	return b.Hits
}

func (b *Textbook) take(partition int, record []byte) {
	if err := b.reader.Reset(record); err != nil {
		b.t.Fatal(err)
	}
	if b.positions[partition].Judge(b.reader.Header(), b.reader.Checksum(), time.Now().UnixMilli()) != hit.Apply {
		return
	}
	for _, item := range b.reader.Items() {
		key := string(b.reader.Pairs()[item.Pair].Key)
		b.Hits += int(item.Cost)
		b.FurthestBehind = max(b.FurthestBehind, time.Duration(b.newest[key]-item.UnixMilli)*time.Millisecond)
		if item.UnixMilli < b.newest[key]-Late.Milliseconds() {
			b.TooLate += int(item.Cost)
			continue
		}
		b.newest[key] = max(b.newest[key], item.UnixMilli)
		for range item.Cost {
			b.times[key] = append(b.times[key], item.UnixMilli)
		}
	}
}

// Offenders returns the keys that break the limit.
func (b *Textbook) Offenders() map[string]bool {
	found := map[string]bool{}
	for key, times := range b.times {
		if Breaks(times) {
			found[key] = true
		}
	}
	return found
}

// Breaks reports whether some span has more requests than the limit.
func Breaks(times []int64) bool {
	slices.Sort(times)
	for i := Limit; i < len(times); i++ {
		if times[i]-times[i-Limit] < Per.Milliseconds() {
			return true
		}
	}
	return false
}
