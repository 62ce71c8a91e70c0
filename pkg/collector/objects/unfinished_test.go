package objects_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"weir/internal/bucket"
	"weir/pkg/collector/objects"
	"weir/pkg/collector/ordered"
	"weir/test/streams"
)

// A growing file is a store with one object that is being written. One transfer of it fails.
type growing struct {
	mu    sync.Mutex
	text  []byte
	fails int // behind so many bytes; 0 never
}

func (g *growing) Look(context.Context, string) error { return nil }

func (g *growing) object() bucket.Object {
	return bucket.Object{Key: "/logs/a", Size: int64(len(g.text)), Modified: time.Now().Truncate(time.Hour)}
}

func (g *growing) List(_ context.Context, _ string, each func(bucket.Object) error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return each(g.object())
}

func (g *growing) Open(ctx context.Context, o *bucket.Object) (*bucket.Body, error) {
	return g.OpenFrom(ctx, o, 0)
}

func (g *growing) OpenFrom(_ context.Context, _ *bucket.Object, from int64) (*bucket.Body, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	o := g.object()
	o.Open = true
	rest := bytes.NewReader(g.text[from:])
	if g.fails == 0 || len(g.text[from:]) <= g.fails {
		return bucket.NewBody(o, io.NopCloser(rest), func() {}), nil
	}
	breaks := io.MultiReader(io.LimitReader(rest, int64(g.fails)), broken{})
	g.fails = 0
	return bucket.NewBody(o, io.NopCloser(breaks), func() {}), nil
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("the transfer broke") }

// A file that is being written was read to its end, and again up to somewhere in what follows when the transfer breaks:
// reading goes on there, and not where it ended before.
func TestAPageOfAFileThatIsBeingWrittenIsNotReadAgain(t *testing.T) {
	store := &growing{}
	b := streams.New(t, "hdfs", func() ([]ordered.Log, error) {
		log, err := objects.Open(objects.Options{URL: "hdfs://logs", Delay: time.Hour, Store: store, Open: true, ListEvery: 50 * time.Millisecond})
		return []ordered.Log{log}, err
	})
	store.text = text(b.Lines(10))
	b.Start()
	b.Await()
	more := text(b.Lines(30_000))
	store.mu.Lock()
	store.text, store.fails = append(store.text, more...), len(more)*3/4 // behind the first page
	store.mu.Unlock()
	b.Says("the transfer broke")
	b.Await()
}
