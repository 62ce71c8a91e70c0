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
