package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"weir/internal/database"
	"weir/internal/topic"
	"weir/internal/topic/topictest"
	"weir/test/wait"
)

// A clocked log has a clock of the test.
func openClocked(t *testing.T, folder string, now *atomic.Int64) (*Log, *database.DB, func()) {
	t.Helper()
	db, err := database.Open(ctx, database.Options{Folder: folder, MemoryBytes: 8 << 20, SplitAt: SplitAt})
	if err != nil {
		t.Fatal(err)
	}
	l, err := Open(ctx, Options{Database: db, RetainEvery: 10 * time.Millisecond, TailBytes: 1, Now: func() time.Time { return time.UnixMilli(now.Load()) }})
	if err != nil {
		t.Fatal(err)
	}
	return l, db, func() {
		l.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

func send(t *testing.T, l *Log, name string, messages ...topic.Message) {
	t.Helper()
	a := l.NewAppender(topic.AppenderConfig{Topic: name, Partitions: 1})
	for _, m := range messages {
		if err := a.Send(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func spanOf(t *testing.T, l *Log, name string) topic.Span {
	t.Helper()
	span, err := l.PartitionSpan(ctx, name, 0)
	if err != nil {
		t.Fatal(err)
	}
	return span
}

// Records go by their age, all of them too, and offsets go on after that and after a restart. A clock that is set back
// does not change their order.
func TestRetentionByAge(t *testing.T) {
	folder := t.TempDir()
	var now atomic.Int64
	now.Store(1_000_000)
	l, _, end := openClocked(t, folder, &now)
	of := topic.Topic{Name: "hits", Partitions: 1, Settings: map[string]string{"retention.ms": "1000"}}
	if err := l.EnsureTopics(ctx, of); err != nil {
		t.Fatal(err)
	}
	send(t, l, "hits", topic.Message{Value: []byte("a")}, topic.Message{Value: []byte("b")})
	now.Store(1_000_700)
	send(t, l, "hits", topic.Message{Value: []byte("c")})
	now.Store(1_000_600)
	send(t, l, "hits", topic.Message{Value: []byte("d")})
	now.Store(1_001_000)
	time.Sleep(50 * time.Millisecond)
	if span := spanOf(t, l, "hits"); span != (topic.Span{End: 4}) {
		t.Fatalf("too early: %v", span)
	}
	now.Store(1_001_600) // d came at 600 by the clock, but after c
	wait.Until(t, "the first two go", func() bool { return spanOf(t, l, "hits") == topic.Span{Start: 2, End: 4} })
	r := l.Reader("hits", 0, 0, 0)
	if _, err := r.Fetch(ctx); !errors.Is(err, topic.ErrTrimmed) {
		t.Error(err)
	}
	now.Store(1_010_000)
	wait.Until(t, "all go", func() bool { return spanOf(t, l, "hits") == topic.Span{Start: 4, End: 4} })
	end()

	l, db, end := openClocked(t, folder, &now)
	defer end()
	if span := spanOf(t, l, "hits"); span != (topic.Span{Start: 4, End: 4}) {
		t.Errorf("after a restart: %v", span)
	}
	send(t, l, "hits", topic.Message{Value: []byte("e")})
	if span := spanOf(t, l, "hits"); span != (topic.Span{Start: 4, End: 5}) {
		t.Errorf("one more: %v", span)
	}

	// A longer retention is adopted.
	of.Settings = map[string]string{"retention.ms": "1000000"}
	if err := l.EnsureTopics(ctx, of); err != nil {
		t.Fatal(err)
	}
	now.Store(1_020_000)
	time.Sleep(50 * time.Millisecond)
	if span := spanOf(t, l, "hits"); span.Start != 4 || span.End != 5 {
		t.Errorf("with a longer retention: %v", span)
	}
	if left := keysOf(t, db, aRecord); left != 1 {
		t.Errorf("%d records are stored", left)
	}
}

// keysOf returns how many keys of a kind there are.
func keysOf(t *testing.T, db *database.DB, kind byte) int {
	t.Helper()
	n, err := database.Do(ctx, db, func(db *pebble.DB) (n int, err error) {
		iterator, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{ours, kind}, UpperBound: []byte{ours, kind + 1}})
		if err != nil {
			return 0, err
		}
		for ok := iterator.First(); ok; ok = iterator.Next() {
			n++
		}
		return n, iterator.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A compacted topic keeps a record for each key, and forgets keys without a value after a while, but not its end.
func TestACompactedTopicIsATable(t *testing.T) {
	folder := t.TempDir()
	var now atomic.Int64
	now.Store(1_000_000)
	l, db, end := openClocked(t, folder, &now)
	if err := l.EnsureTopics(ctx, topic.Topic{Name: "list", Partitions: 1, Settings: map[string]string{"cleanup.policy": "compact", "delete.retention.ms": "1000"}}); err != nil {
		t.Fatal(err)
	}
	var messages []topic.Message
	for n := range 1000 {
		messages = append(messages, topic.Message{Key: fmt.Append(nil, "key", n%10), Value: []byte("v")})
	}
	for n := range 4 {
		messages = append(messages, topic.Message{Key: fmt.Append(nil, "key", n)})
	}
	a := l.NewAppender(topic.AppenderConfig{Topic: "list", Partitions: 1})
	if err := a.Send(ctx, messages...); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if records, keys, ends := keysOf(t, db, aRecord), keysOf(t, db, aLast), keysOf(t, db, anEnd); records != 10 || keys != 10 || ends != 4 {
		t.Errorf("%d records, %d keys, %d without a value", records, keys, ends)
	}

	send(t, l, "list", topic.Message{Key: []byte("key0"), Value: []byte("again")}, topic.Message{Key: []byte("key9")})
	now.Store(1_001_001)
	wait.Until(t, "keys without a value go", func() bool { return keysOf(t, db, anEnd) == 0 })
	if records, keys := keysOf(t, db, aRecord), keysOf(t, db, aLast); records != 6 || keys != 6 {
		t.Errorf("%d records, %d keys", records, keys)
	}
	end()

	l, _, end = openClocked(t, folder, &now)
	defer end()
	if span := spanOf(t, l, "list"); span != (topic.Span{End: 1006}) {
		t.Errorf("%v", span)
	}
	found := 0
	for r := l.Reader("list", 0, 0, 0); r.Next() < 1006; {
		records, err := r.Fetch(ctx)
		if err != nil {
			t.Fatal(err)
		}
		found += len(records)
	}
	if found != 6 {
		t.Errorf("%d records are read", found)
	}
}

// Segments that retention deletes leave the disk.
func TestRetentionFreesTheDisk(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	var now atomic.Int64
	l, _, end := openClocked(t, folder, &now)
	defer end()
	if err := l.EnsureTopics(ctx, topic.Topic{Name: "hits", Partitions: 1, Settings: map[string]string{"retention.bytes": "4000000"}}); err != nil {
		t.Fatal(err)
	}
	a := l.NewAppender(topic.AppenderConfig{Topic: "hits", Partitions: 1, QueueBytes: 1 << 20})
	const total = 60_000_000
	for range total / 10_000 {
		if err := a.Send(ctx, topic.Message{Value: topictest.Value(10_000)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Close(ctx); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the log is short", func() bool {
		span := spanOf(t, l, "hits")
		return span.End-span.Start <= 400
	})
	wait.Until(t, "the disk is free", func() bool { return sizeOf(folder) < 30_000_000 })
}

func sizeOf(folder string) (size int64) {
	_ = filepath.WalkDir(folder, func(_ string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			if info, err := entry.Info(); err == nil {
				size += info.Size()
			}
		}
		return nil
	})
	return size
}
