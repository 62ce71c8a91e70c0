package past

import (
	"log/slog"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"go.uber.org/goleak"

	"weir/internal/database"
	"weir/pkg/blocklist"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// opens returns an index whose events the test writes itself, without a topic.
func opens(t testing.TB, folder string) (*Index, *follower) {
	t.Helper()
	x := New(Config{Folder: folder, Logger: slog.New(slog.DiscardHandler), Retention: 24 * time.Hour, MaxEvents: 1 << 40})
	x.patience = time.Hour
	db, err := database.Open(t.Context(), database.Options{Folder: folder, MemoryBytes: x.config.MemoryBytes, WriteBytes: x.config.MemoryBytes / 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	f := &follower{Index: x, in: &opened{db: db}}
	if err := f.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return x, f
}

// adds writes events in one batch.
func adds(t testing.TB, f *follower, events ...*Event) {
	t.Helper()
	err := f.change(t.Context(), func(w *writer) error {
		for _, e := range events {
			if err := w.add(e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// event makes an event with its line.
func event(t testing.TB, what string, at int64, e blocklist.Entry) *Event {
	t.Helper()
	line, err := blocklist.AppendEvent(nil, what, at, &e)
	if err != nil {
		t.Fatal(err)
	}
	read, err := ReadEvent(line)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// keysOf counts the keys of the database by their spaces.
func keysOf(t testing.TB, f *follower) map[string]int {
	t.Helper()
	counts, err := database.Do(t.Context(), f.in.db, func(db *pebble.DB) (map[string]int, error) {
		counts := map[string]int{}
		it, err := db.NewIter(nil)
		if err != nil {
			return nil, err
		}
		for ok := it.First(); ok; ok = it.Next() {
			counts[string(it.Key()[:1])]++
		}
		return counts, it.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	return counts
}
