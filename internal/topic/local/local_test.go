package local

import (
	"context"
	"errors"
	"testing"
	"time"

	"weir/internal/database"
	"weir/internal/topic"
	"weir/internal/topic/topictest"
)

// open opens a log in a folder, until the test ends.
func open(t testing.TB, folder string) *Log {
	t.Helper()
	db, err := database.Open(context.Background(), database.Options{Folder: folder, WriteBytes: 16 << 20, SplitAt: SplitAt})
	if err != nil {
		t.Fatal(err)
	}
	l, err := Open(context.Background(), Options{Database: db, RetainEvery: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func TestALocalLog(t *testing.T) {
	t.Parallel()
	topictest.Run(t, topictest.Implementation{Open: func(t *testing.T) topic.Log { return open(t, t.TempDir()) }, Compacts: true})
}

// The same with hardly anything in memory: all is read from the database.
func TestALocalLogWithoutTails(t *testing.T) {
	t.Parallel()
	topictest.Run(t, topictest.Implementation{Compacts: true, Open: func(t *testing.T) topic.Log {
		l := open(t, t.TempDir())
		l.tails.most = 1
		return l
	}})
}

// The policy of a topic here never changes, so a record without a key is refused for ever, and only that one.
func TestARecordWithoutAKey(t *testing.T) {
	l := open(t, t.TempDir())
	if err := l.EnsureTopics(t.Context(), topic.Topic{Name: "blocklist", Partitions: 1, Settings: map[string]string{"cleanup.policy": "compact"}}); err != nil {
		t.Fatal(err)
	}
	a := l.Appender(topic.AppenderConfig{Topic: "blocklist", Partitions: 1})
	var answers []error
	for _, key := range [][]byte{[]byte("a"), nil, []byte("b")} {
		message := topic.Message{Key: key, Value: []byte("v"), Done: func(_ int64, err error) { answers = append(answers, err) }}
		if err := a.Send(t.Context(), message); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(answers) != 3 || answers[0] != nil || !errors.Is(answers[1], topic.ErrPermanent) || answers[2] != nil {
		t.Errorf("%v", answers)
	}
}
