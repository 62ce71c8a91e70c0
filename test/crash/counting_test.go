package crash

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/internal/topic"
	"weir/pkg/hit"
	"weir/test/wait"
)

const partitions = 4

// A counter counts the topic hits as an aggregator does: each partition in its order, each batch once.
type counter struct {
	client    topic.Log
	topic     string
	readers   []topic.Reader
	positions []*hit.Positions
	keys      map[string]int64
	verdicts  map[hit.Verdict]int
	conflict  string // the last one
}

func newCounter(t testing.TB, brokers []string, prefix string) *counter {
	return newCounterOf(kafkatest.Client(t, kafka.Config{Brokers: brokers}), prefix)
}

func newCounterOf(client topic.Log, prefix string) *counter {
	c := &counter{client: client, topic: prefix + "hits", keys: map[string]int64{}, verdicts: map[hit.Verdict]int{}}
	for p := range partitions {
		c.readers = append(c.readers, c.client.Reader(c.topic, p, 0, 0))
		c.positions = append(c.positions, hit.NewPositions(100_000, 48*time.Hour))
	}
	return c
}

// read counts the records up to the log's end. After an error it may be called again.
func (c *counter) read(ctx context.Context, t testing.TB) error {
	t.Helper()
	spans, err := c.client.Offsets(ctx, c.topic)
	if err != nil {
		return err
	}
	for p, span := range spans {
		for c.readers[p].Next() < span.End {
			records, err := c.readers[p].Fetch(ctx)
			if err != nil {
				return err
			}
			for _, record := range records {
				c.count(t, p, record)
			}
		}
	}
	return nil
}

func (c *counter) count(t testing.TB, partition int, record topic.Record) {
	t.Helper()
	var r hit.Reader
	if err := r.Reset(record.Value); err != nil {
		t.Fatal(err)
	}
	verdict := c.positions[partition].Judge(r.Header(), r.Checksum(), record.Time.UnixMilli())
	c.verdicts[verdict]++
	if verdict == hit.Conflict {
		c.conflict = fmt.Sprintf("%+v", r.Header())
	}
	if verdict != hit.Apply {
		return
	}
	for _, item := range r.Items() {
		pair := r.Pairs()[item.Pair]
		c.keys[r.Rules()[pair.Rule]+" "+string(pair.Key)] += item.Cost
	}
}

func (c *counter) total() (n int64) {
	for _, count := range c.keys {
		n += count
	}
	return n
}

// more reads until there is more than was counted before.
func (c *counter) more(t testing.TB) {
	t.Helper()
	before, fault := c.total(), error(nil)
	for end := time.Now().Add(2 * time.Minute); c.total() == before; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("nothing more is counted: %v", fault)
		}
		fault = c.read(t.Context(), t)
	}
}

// await reads until the counts are the wanted ones.
func (c *counter) await(t testing.TB, want map[string]int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var fault error
	for !maps.Equal(c.keys, want) {
		if ctx.Err() != nil || c.total() > sum(want) {
			t.Fatalf("counted %d hits of %d keys, want %d of %d; verdicts %v; last conflict %s; last fault %v\n%s",
				c.total(), len(c.keys), sum(want), len(want), c.verdicts, c.conflict, fault, differences(c.keys, want))
		}
		if err := c.read(ctx, t); err != nil {
			fault = err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// awaitAtLeast reads until no key has fewer hits than wanted.
func (c *counter) awaitAtLeast(t testing.TB, want map[string]int64) {
	t.Helper()
	wait.Until(t, "all to be counted", func() bool {
		fault := c.read(t.Context(), t)
		for key, n := range want {
			if c.keys[key] < n {
				return false
			}
		}
		return fault == nil
	})
}

func sum(keys map[string]int64) (n int64) {
	for _, count := range keys {
		n += count
	}
	return n
}

func differences(got, want map[string]int64) string {
	text := ""
	for key, n := range want {
		if got[key] != n && len(text) < 500 {
			text += fmt.Sprintf("%s: %d, want %d\n", key, got[key], n)
		}
	}
	return text
}
