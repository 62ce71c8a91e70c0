package daemon

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"weir/cmd/internal/config"
	"weir/internal/topic"
)

// Notes alone need no topic of hits, nor room in its queue: a log is forgotten while lines wait for the disk.
func TestNotesAloneWaitForNoHits(t *testing.T) {
	opened, err := OpenLocal(t.Context(), &config.Config{Data: t.TempDir()}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	notes := localNotes{opened.Log, opened.NewAppender(topic.AppenderConfig{Topic: "missing", Partitions: 1}), false}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := notes.Together(ctx, nil, []topic.Note{{Key: []byte("key"), Value: []byte("value")}}, true); err != nil {
		t.Error(err)
	}
}
