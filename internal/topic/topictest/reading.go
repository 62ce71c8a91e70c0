package topictest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"weir/internal/topic"
)

// A reader at the end returns without records after a while, and is woken by a record.
func (b *bench) testAReaderWaits() {
	name := b.topic("hits", 2)
	r := b.log.Reader(name, 1, 0, 0)
	b.until("a reader returns without records", func() bool {
		records, err := r.Fetch(b.Context())
		return err == nil && len(records) == 0
	})
	if r.Next() != 0 || r.Span() != (topic.Span{}) {
		b.Errorf("%d, %v", r.Next(), r.Span())
	}
	for n := range 20 {
		topic.SetPatient(r, n%2 == 0)
		got := make(chan []topic.Record)
		go func() { got <- b.read(r, int64(n+1)) }()
		b.append(name, 2, 1, fmt.Sprint(n))
		if records := <-got; len(records) != 1 || string(records[0].Value) != fmt.Sprint(n) {
			b.Fatalf("%v", records)
		}
	}
	ctx, cancel := context.WithCancel(b.Context())
	cancel()
	if _, err := r.Fetch(ctx); !errors.Is(err, context.Canceled) {
		b.Errorf("without time: %v", err)
	}
	// Only that a patient reader waits longer than others is asserted, and not how long.
	topic.SetPatient(r, true)
	began := time.Now()
	if records, err := r.Fetch(b.Context()); err != nil || len(records) != 0 || time.Since(began) < time.Second {
		b.Errorf("a patient reader returned %d records after %s: %v", len(records), time.Since(began), err)
	}
}

// An answer has at least one record, and about as many bytes as were asked for.
func (b *bench) testBoundedAnswers() {
	name := b.topic("hits", 1)
	var values []string
	for n := range 100 {
		values = append(values, fmt.Sprint(n, strings.Repeat("x", 10_000)))
	}
	b.append(name, 1, 0, values...)
	for _, most := range []int{1, 50_000} {
		r := b.log.Reader(name, 0, 0, most)
		for _, from := range []int64{90, 3, 99, 0} {
			r.SetNext(from)
			records := b.read(r, 100)
			if len(records) != int(100-from) || string(records[0].Value) != values[from] || string(records[len(records)-1].Value) != values[99] {
				b.Fatalf("from %d on, %d bytes: %d records", from, most, len(records))
			}
		}
	}
}

func (b *bench) testPastTheEnd() {
	name := b.topic("hits", 1)
	b.append(name, 1, 0, "a", "b")
	r := b.log.Reader(name, 0, 3, 0)
	_, err := r.Fetch(b.Context())
	if !errors.Is(err, topic.ErrPastEnd) || r.Next() != 3 || r.Span() != (topic.Span{End: 2}) {
		b.Errorf("%v, next is %d, the span %v", err, r.Next(), r.Span())
	}
	r.SetNext(1)
	if records := b.read(r, 2); len(records) != 1 || string(records[0].Value) != "b" {
		b.Errorf("%v", records)
	}
	if _, err := b.log.Reader(b.prefix+"none", 0, 0, 0).Fetch(b.Context()); !errors.Is(err, topic.ErrNoTopic) {
		b.Errorf("a topic that does not exist: %v", err)
	}
	if _, err := b.log.Reader(name, 1, 0, 0).Fetch(b.Context()); !errors.Is(err, topic.ErrNoTopic) {
		b.Errorf("a partition that does not exist: %v", err)
	}
}

// Old records go, and a reader that wants them learns where the log begins.
func (b *bench) testTrimmed() {
	name := b.topic("hits", 1, "segment.bytes=1048576", "retention.bytes=1048576")
	value := strings.Repeat("x", 50_000)
	var values []string
	for range 100 {
		values = append(values, value)
	}
	b.append(name, 1, 0, values...)
	b.until("old records are deleted", func() bool {
		span, err := b.log.PartitionSpan(b.Context(), name, 0)
		return err == nil && span.Start > 0
	})

	r := b.log.Reader(name, 0, 0, 0)
	_, err := r.Fetch(b.Context())
	span := r.Span()
	if !errors.Is(err, topic.ErrTrimmed) || r.Next() != 0 || span.Start == 0 || span.End != 100 {
		b.Fatalf("%v, next is %d, the span %v", err, r.Next(), span)
	}
	r.SetNext(span.Start)
	records, err := r.Fetch(b.Context())
	if errors.Is(err, topic.ErrTrimmed) { // more were deleted meanwhile
		r.SetNext(r.Span().Start)
		records, err = r.Fetch(b.Context())
	}
	if err != nil || len(records) == 0 || records[0].Offset < span.Start || records[0].Offset > 99 {
		b.Errorf("%d records, %v", len(records), err)
	}
	if first := b.append(name, 1, 0, "one more"); first != 100 {
		b.Errorf("the next record has offset %d", first)
	}
}

func (b *bench) testOffsetAt() {
	name := b.topic("hits", 1)
	b.append(name, 1, 0, "a", "b", "c")
	time.Sleep(20 * time.Millisecond)
	between := time.Now()
	time.Sleep(20 * time.Millisecond)
	b.append(name, 1, 0, "d", "e")
	for at, want := range map[time.Time]int64{{}: 0, between: 3, between.Add(time.Hour): 5} {
		if at.IsZero() {
			at = between.Add(-time.Hour)
		}
		if got, err := b.log.OffsetAt(b.Context(), name, 0, at); err != nil || got != want {
			b.Errorf("at %s: %d, %v, want %d", at, got, err, want)
		}
	}
}
