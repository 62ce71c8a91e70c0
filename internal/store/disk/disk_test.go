package disk

import (
	"context"
	"testing"

	"weir/internal/store"
	"weir/internal/store/storetest"
)

var ctx = context.Background()

func open(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAStoreOnDisk(t *testing.T) {
	storetest.Run(t, func(t *testing.T) func() store.Store {
		folder := t.TempDir()
		return func() store.Store { return open(t, Options{Folder: folder}) }
	})
}
