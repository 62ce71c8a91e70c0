// Package topictest tests implementations of topic.Log.
package topictest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/topic"
)

// An Implementation is what is tested.
type Implementation struct {
	// Open opens a log, which has topics of other tests too, for one test. Its end closes it.
	Open func(t *testing.T) topic.Log

	Compacts bool // it has compacted topics
}

// patience bounds how long a test waits for what must happen.
const patience = time.Minute

// Run runs all tests, and all at the same time: most of them wait for a log.
func Run(t *testing.T, i Implementation) {
	var running sync.WaitGroup
	defer running.Wait()

	for name, test := range map[string]func(*bench){
		"appending":            (*bench).testAppending,
		"many appenders":       (*bench).testManyAppenders,
		"null and empty":       (*bench).testNullAndEmpty,
		"a reader waits":       (*bench).testAReaderWaits,
		"bounded answers":      (*bench).testBoundedAnswers,
		"past the end":         (*bench).testPastTheEnd,
		"trimmed":              (*bench).testTrimmed,
		"offset by time":       (*bench).testOffsetAt,
		"a full queue":         (*bench).testAFullQueue,
		"refused records":      (*bench).testRefusedRecords,
		"closing":              (*bench).testClosing,
		"giving up":            (*bench).testGivingUp,
		"topics":               (*bench).testTopics,
		"identities":           (*bench).testIdentities,
		"commits":              (*bench).testCommits,
		"one owner":            (*bench).testOneOwner,
		"a former owner":       (*bench).testAFormerOwner,
		"owners that fail":     (*bench).testOwnersThatFail,
		"a topic that is late": (*bench).testATopicThatIsLate,
	} {
		running.Go(func() { t.Run(name, func(t *testing.T) { test(newBench(t, i)) }) })
	}

	if i.Compacts {
		running.Go(func() { t.Run("compaction", func(t *testing.T) { newBench(t, i).testCompaction() }) })
		running.Go(func() { t.Run("records without a key", func(t *testing.T) { newBench(t, i).testRecordsWithoutAKey() }) })
	}
}

// A bench is a log for one test, and a prefix for the names in it.
type bench struct {
	*testing.T
	log    topic.Log
	prefix string
}

func newBench(t *testing.T, i Implementation) *bench {
	return &bench{t, i.Open(t), fmt.Sprintf("t%08x.", rand.Uint32())}
}

// topic makes a topic and returns its name.
func (b *bench) topic(word string, partitions int, settings ...string) string {
	b.Helper()
	of := topic.Topic{Name: b.prefix + word, Partitions: partitions, Settings: map[string]string{}}
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		of.Settings[name] = value
	}
	if err := b.log.EnsureTopics(b.Context(), of); err != nil {
		b.Fatal(err)
	}
	return of.Name
}

func (b *bench) appender(name string, partitions int) topic.Appender {
	a := b.log.Appender(topic.AppenderConfig{Topic: name, Partitions: partitions})
	b.Cleanup(func() { _ = a.Close(context.Background()) })
	return a
}

// append appends values to a partition, each in a call of its own, and returns the first offset.
func (b *bench) append(name string, partitions, partition int, values ...string) int64 {
	b.Helper()
	a := b.log.Appender(topic.AppenderConfig{Topic: name, Partitions: partitions})
	first := int64(-1)
	for i, v := range values {
		m := topic.Message{Partition: partition, Value: []byte(v), Done: func(offset int64, err error) {
			if err != nil {
				b.Error(err)
			}
			if i == 0 {
				first = offset
			}
		}}
		if err := a.Send(b.Context(), m); err != nil {
			b.Fatal(err)
		}
	}
	if err := a.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
	return first
}

// read reads records until an offset is reached.
func (b *bench) read(r topic.Reader, to int64) (records []topic.Record) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	for r.Next() < to {
		got, err := r.Fetch(ctx)
		if ctx.Err() != nil {
			b.Fatalf("only %d records came, and offset %d was wanted: %v", len(records), to, err)
		}
		if errors.Is(err, topic.ErrTrimmed) || errors.Is(err, topic.ErrPastEnd) {
			b.Fatal(err)
		}
		for _, record := range got {
			record.Key, record.Value = clone(record.Key), clone(record.Value) // they are valid until the next Fetch
			records = append(records, record)
		}
	}
	return records
}

func clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append([]byte{}, b...)
}

func (b *bench) until(what string, done func() bool) {
	b.Helper()
	for began := time.Now(); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > patience {
			b.Fatalf("it does not happen that %s", what)
		}
	}
}

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

func (b *bench) testTopics() {
	name := b.topic("hits", 2, "cleanup.policy=delete", "retention.ms=3600000")
	of := topic.Topic{Name: name, Partitions: 2, Settings: map[string]string{"cleanup.policy": "delete", "retention.ms": "3600000"}}
	if err := b.log.EnsureTopics(b.Context(), of); err != nil {
		b.Errorf("again: %v", err)
	}
	if settings, err := b.log.TopicSettings(b.Context(), name); err != nil || settings["cleanup.policy"] != "delete" || settings["retention.ms"] != "3600000" {
		b.Errorf("%v, %v", settings, err)
	}
	of.Partitions = 3
	if err := b.log.EnsureTopics(b.Context(), of); !errors.Is(err, topic.ErrPartitions) || !errors.Is(err, topic.ErrPermanent) {
		b.Errorf("other partitions: %v", err)
	}
	if count, err := b.log.Partitions(b.Context(), name); err != nil || count != 2 {
		b.Errorf("%d partitions, %v", count, err)
	}
	if _, err := b.log.Partitions(b.Context(), b.prefix+"none"); !errors.Is(err, topic.ErrNoTopic) {
		b.Errorf("a topic that does not exist: %v", err)
	}
	if _, err := b.log.Offsets(b.Context(), b.prefix+"none"); !errors.Is(err, topic.ErrNoTopic) {
		b.Errorf("a topic that does not exist: %v", err)
	}
	b.until("the topic is listed", func() bool {
		cluster, err := b.log.Cluster(b.Context())
		return err == nil && strings.Contains(strings.Join(cluster.Topics, " ")+" ", name+" ")
	})
}

// A topic keeps its identity, and no two topics have the same.
func (b *bench) testIdentities() {
	first, second := b.topic("hits", 2), b.topic("events", 1)
	identify := func(name string, partition int) (id topic.Identity) {
		b.Helper()
		b.until("a topic is identified", func() (ok bool) {
			var err error
			id, err = b.log.Reader(name, partition, 0, 0).Identity(b.Context())
			return err == nil
		})
		return id
	}
	of := identify(first, 0)
	if of == "" || identify(first, 0) != of || identify(first, 1) != of {
		b.Errorf("a topic is %q and then %q", of, identify(first, 1))
	}
	if other := identify(second, 0); other.Is(of) {
		b.Errorf("two topics are %q and %q", of, other)
	}
	if id, err := b.log.Reader(b.prefix+"none", 0, 0, 0).Identity(b.Context()); err == nil {
		b.Errorf("a topic that does not exist is %q", id)
	}
}

// testCompaction checks that the last record of each key stays, whatever is deleted.
func (b *bench) testCompaction() {
	name := b.topic("blocklist", 1, "cleanup.policy=compact", "segment.ms=1000", "min.cleanable.dirty.ratio=0.001", "max.compaction.lag.ms=1000", "delete.retention.ms=100")
	a := b.appender(name, 1)
	want := map[string]string{}
	sent := int64(0)
	round := func() {
		for range 500 {
			key, value := fmt.Sprint("key", rand.IntN(20)), fmt.Sprint(rand.Uint64())
			m := topic.Message{Key: []byte(key), Value: []byte(value)}
			want[key] = value
			if rand.IntN(10) == 0 {
				m.Value = nil
				delete(want, key)
			}
			sent++
			if err := a.Send(b.Context(), m); err != nil {
				b.Fatal(err)
			}
		}
		b.until("all are written", func() bool { return a.Held() == 0 })
	}

	for range 3 {
		round()
		time.Sleep(1200 * time.Millisecond) // a segment's age
	}
	round()
	b.until("the log is compacted", func() bool { return len(b.read(b.log.Reader(name, 0, 0, 0), sent)) < int(sent)/2 })
	found := map[string]string{}
	before := int64(-1)
	for _, r := range b.read(b.log.Reader(name, 0, 0, 1000), sent) {
		if r.Offset <= before {
			b.Fatalf("%d after %d", r.Offset, before)
		}
		before = r.Offset
		found[string(r.Key)] = string(r.Value)
		if r.Value == nil {
			delete(found, string(r.Key))
		}
	}
	if fmt.Sprint(found) != fmt.Sprint(want) {
		b.Errorf("the log says %v, want %v", found, want)
	}
	if err := b.log.EnsureTopics(b.Context(), topic.Topic{Name: name, Partitions: 1, Settings: map[string]string{"cleanup.policy": "delete"}}); !errors.Is(err, topic.ErrSettings) {
		b.Errorf("another policy: %v", err)
	}
}

func (b *bench) testRecordsWithoutAKey() {
	name := b.topic("blocklist", 1, "cleanup.policy=compact")
	a := b.appender(name, 1)
	var answers []error
	for _, key := range [][]byte{[]byte("a"), nil, []byte("b")} {
		if err := a.Send(b.Context(), topic.Message{Key: key, Value: []byte("v"), Done: func(_ int64, err error) { answers = append(answers, err) }}); err != nil {
			b.Fatal(err)
		}
	}
	if err := a.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
	if len(answers) != 3 || answers[0] != nil || !errors.Is(answers[1], topic.ErrPermanent) || answers[2] != nil {
		b.Errorf("%v", answers)
	}
}
