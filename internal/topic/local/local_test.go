package local

import (
	"context"
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
