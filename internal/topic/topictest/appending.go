package topictest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"weir/internal/topic"
)

// Records are answered once and in order, with consecutive offsets, and read so.
func (b *bench) testAppending() {
	const partitions, calls = 3, 200
	name := b.topic("hits", partitions)
	a := b.appender(name, partitions)
	var mu sync.Mutex
	answered := make([][]int64, partitions)
	want := make([][]string, partitions)
	for n := range calls {
		var messages []topic.Message
		for p := range partitions {
			for range n % 3 {
				value := fmt.Sprintf("%d of %d", len(want[p]), p)
				want[p] = append(want[p], value)
				messages = append(messages, topic.Message{Partition: p, Key: []byte("key"), Value: []byte(value), Done: func(offset int64, err error) {
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						b.Error(err)
					}
					answered[p] = append(answered[p], offset)
				}})
			}
		}
		if err := a.Send(b.Context(), messages...); err != nil {
			b.Fatal(err)
		}
	}
	if err := a.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
	if a.Held() != 0 {
		b.Errorf("%d bytes are held after the end", a.Held())
	}

	for p := range partitions {
		for i, offset := range answered[p] {
			if offset != int64(i) {
				b.Fatalf("partition %d: answer %d was for offset %d", p, i, offset)
			}
		}
		records := b.read(b.log.Reader(name, p, 0, 0), int64(len(want[p])))
		if len(records) != len(want[p]) || len(answered[p]) != len(want[p]) {
			b.Fatalf("partition %d: %d records and %d answers, want %d", p, len(records), len(answered[p]), len(want[p]))
		}
		for i, r := range records {
			if r.Offset != int64(i) || string(r.Value) != want[p][i] || string(r.Key) != "key" || i > 0 && r.Time.Before(records[i-1].Time) {
				b.Fatalf("partition %d: record %d is %+v", p, i, r)
			}
		}
	}
	if spans, err := b.log.Offsets(b.Context(), name); err != nil || len(spans) != partitions || spans[2] != (topic.Span{End: int64(len(want[2]))}) {
		b.Errorf("%v, %v", spans, err)
	}
}

// Appenders of one topic that send at the same time get offsets of their own.
func (b *bench) testManyAppenders() {
	name := b.topic("hits", 1)
	var mu sync.Mutex
	values := map[int64]string{}
	var sending sync.WaitGroup
	for n := range 8 {
		a := b.appender(name, 1)
		sending.Go(func() {
			for i := range 50 {
				value := fmt.Sprint(n, " ", i)
				_ = a.Send(b.Context(), topic.Message{Value: []byte(value), Done: func(offset int64, _ error) {
					mu.Lock()
					defer mu.Unlock()
					values[offset] = value
				}})
			}
			_ = a.Close(b.Context())
		})
	}
	sending.Wait()
	if len(values) != 400 {
		b.Fatalf("%d offsets for 400 records", len(values))
	}
	last := map[string]int{}
	for _, r := range b.read(b.log.Reader(name, 0, 0, 0), 400) {
		var n string
		var i int
		_, _ = fmt.Sscan(string(r.Value), &n, &i)
		if values[r.Offset] != string(r.Value) || i != last[n] {
			b.Fatalf("record %d is %q, and %q was answered", r.Offset, r.Value, values[r.Offset])
		}
		last[n]++
	}
}

func (b *bench) testNullAndEmpty() {
	name := b.topic("hits", 1)
	a := b.appender(name, 1)
	pairs := [][2][]byte{{nil, nil}, {nil, {}}, {{}, nil}, {{}, {}}, {{0}, {0xff}}}
	for _, pair := range pairs {
		if err := a.Send(b.Context(), topic.Message{Key: pair[0], Value: pair[1]}); err != nil {
			b.Fatal(err)
		}
	}
	for i, r := range b.read(b.log.Reader(name, 0, 0, 0), int64(len(pairs))) {
		if (r.Key == nil) != (pairs[i][0] == nil) || (r.Value == nil) != (pairs[i][1] == nil) || string(r.Value) != string(pairs[i][1]) {
			b.Errorf("%d: %#v, want %#v", i, r, pairs[i])
		}
	}
}

// A queue that is full refuses, or makes its caller wait.
func (b *bench) testAFullQueue() {
	name := b.topic("hits", 1)
	a := b.log.Appender(topic.AppenderConfig{Topic: name, Partitions: 1, QueueBytes: 1})
	goOn := make(chan struct{})
	if err := a.Send(b.Context(), topic.Message{Value: []byte("a"), Done: func(int64, error) { <-goOn }}); err != nil {
		b.Fatal(err)
	}
	if err := a.TrySend(topic.Message{}); !errors.Is(err, topic.ErrFull) || a.Held() == 0 {
		b.Errorf("%v, %d are held", err, a.Held())
	}
	ctx, cancel := context.WithTimeout(b.Context(), 50*time.Millisecond)
	defer cancel()
	if err := a.Send(ctx, topic.Message{}); !errors.Is(err, context.DeadlineExceeded) {
		b.Errorf("waiting: %v", err)
	}
	sent := make(chan error)
	go func() { sent <- a.Send(b.Context(), topic.Message{Value: []byte("b")}) }()
	close(goOn)
	if err := errors.Join(<-sent, a.Close(b.Context())); err != nil {
		b.Fatal(err)
	}
	if records := b.read(b.log.Reader(name, 0, 0, 0), 2); len(records) != 2 {
		b.Errorf("%v", records)
	}
}

// A record that is refused permanently does not delay the others.
func (b *bench) testRefusedRecords() {
	name := b.topic("hits", 1)
	a := b.appender(name, 1)
	if err := a.Send(b.Context(), topic.Message{Partition: 1}); !errors.Is(err, topic.ErrPartitions) {
		b.Errorf("another partition: %v", err)
	}
	var mu sync.Mutex
	var answers []error
	done := func(_ int64, err error) {
		mu.Lock()
		defer mu.Unlock()
		answers = append(answers, err)
	}
	for _, value := range [][]byte{[]byte("a"), make([]byte, 2<<20), []byte("b")} {
		if err := a.Send(b.Context(), topic.Message{Value: value, Done: done}); err != nil {
			b.Fatal(err)
		}
	}
	if err := a.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
	if len(answers) != 3 || answers[0] != nil || !errors.Is(answers[1], topic.ErrTooLarge) || !errors.Is(answers[1], topic.ErrPermanent) || answers[2] != nil {
		b.Errorf("%v", answers)
	}
	if records := b.read(b.log.Reader(name, 0, 0, 0), 2); len(records) != 2 || string(records[1].Value) != "b" {
		b.Errorf("%d records", len(records))
	}
}

// Everything that was accepted is answered once, whenever the appender is closed.
func (b *bench) testClosing() {
	name := b.topic("hits", 2)
	a := b.log.Appender(topic.AppenderConfig{Topic: name, Partitions: 2})
	var mu sync.Mutex
	accepted, answered := 0, 0
	var sending sync.WaitGroup
	for n := range 4 {
		sending.Go(func() {
			for {
				err := a.Send(b.Context(), topic.Message{Partition: n % 2, Value: []byte("x"), Done: func(_ int64, err error) {
					mu.Lock()
					defer mu.Unlock()
					answered++
					if err != nil {
						b.Error(err)
					}
				}})
				if err != nil {
					if !errors.Is(err, topic.ErrClosed) {
						b.Error(err)
					}
					return
				}
				mu.Lock()
				accepted++
				mu.Unlock()
			}
		})
	}
	time.Sleep(100 * time.Millisecond)
	if err := a.Close(b.Context()); err != nil {
		b.Error(err)
	}
	sending.Wait()
	spans, err := b.log.Offsets(b.Context(), name)
	if err != nil || accepted == 0 || accepted != answered || spans[0].End+spans[1].End != int64(accepted) {
		b.Errorf("%d were accepted and %d answered, the log has %v, %v", accepted, answered, spans, err)
	}
	if err := a.TrySend(topic.Message{}); !errors.Is(err, topic.ErrClosed) {
		b.Errorf("after the end: %v", err)
	}
}

// Close does not wait longer than its context.
func (b *bench) testGivingUp() {
	name := b.topic("hits", 1)
	a := b.log.Appender(topic.AppenderConfig{Topic: name, Partitions: 1})
	answered, failed := 0, 0
	for range 1000 {
		if err := a.Send(b.Context(), topic.Message{Value: make([]byte, 1000), Done: func(_ int64, err error) {
			answered++
			if err != nil {
				failed++
				if !errors.Is(err, topic.ErrClosed) {
					b.Error(err)
				}
			}
		}}); err != nil {
			b.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(b.Context())
	cancel()
	err := a.Close(ctx)
	if answered != 1000 || a.Held() != 0 || (failed > 0) != errors.Is(err, topic.ErrClosed) {
		b.Errorf("%d of %d were answered with an error, %d bytes are held: %v", failed, answered, a.Held(), err)
	}
}
