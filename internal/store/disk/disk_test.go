package disk

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"weir/internal/database"
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

// pebbleOf returns the pebble of a store.
func pebbleOf(t testing.TB, s *Store) *pebble.DB {
	t.Helper()
	db, err := database.Do(ctx, s.database, func(db *pebble.DB) (*pebble.DB, error) { return db, nil })
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func TestAStoreOnDisk(t *testing.T) {
	storetest.Run(t, func(t *testing.T) func() store.Store {
		folder := t.TempDir()
		return func() store.Store { return open(t, Options{Folder: folder}) }
	})
}

func TestAFolderIsForItsOwnerAlone(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "store")
	open(t, Options{Folder: folder}).Close()
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o700 {
		t.Error(info.Mode(), err)
	}
}

func TestMemory(t *testing.T) {
	const memory, keys = 8 << 20, 200_000
	s := open(t, Options{Folder: t.TempDir(), MemoryBytes: memory})
	defer s.Close()
	fence, err := s.Take(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	check := func() (cached int64) {
		m := pebbleOf(t, s).Metrics()
		if held := m.BlockCache.Size + int64(m.MemTable.Size); held > memory+memory/16 {
			t.Fatalf("%d bytes are held, %d are allowed", held, memory)
		}
		return m.BlockCache.Size
	}
	for n := 0; n < keys; n += callKeys {
		var changes []store.Change
		for i := range callKeys {
			changes = append(changes, cold(n+i))
		}
		if fence, err = s.Write(ctx, 0, fence, changes); err != nil {
			t.Fatal(err)
		}
		check()
	}
	if err := pebbleOf(t, s).Flush(); err != nil {
		t.Fatal(err)
	}
	for n := range keys / callKeys {
		var all [][]byte
		for i := range callKeys {
			all = append(all, cold((n*callKeys+i)*7919%keys).Key)
		}
		if _, _, err := s.Read(ctx, 0, store.Windows, all); err != nil {
			t.Fatal(err)
		}
		check()
	}
	if cached := check(); cached < memory/2 {
		t.Errorf("of %d bytes only %d are left for what was read", memory, cached)
	}
}
