package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"go.uber.org/goleak"

	"weir/internal/store"
)

func set(key, value string) store.Change {
	return store.Change{Space: store.Windows, Key: []byte(key), Value: []byte(value)}
}

func TestAFolderHasOneProcess(t *testing.T) {
	folder := t.TempDir()
	s := open(t, Options{Folder: folder})
	if other, err := Open(ctx, Options{Folder: folder}); err == nil {
		other.Close()
		t.Error("opened twice")
	} else if !strings.Contains(err.Error(), folder) {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, Options{Folder: folder}).Close()
}

// After a loss of power the store has the state of some fence, and no earlier one than the last Sync.
func TestALossOfPower(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s := open(t, Options{Folder: "weir", fs: fs})
	defer s.Close()
	fence, err := s.Take(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	keys := [][]byte{[]byte("a"), []byte("b")}
	synced := fence
	var lost int
	for n := range 60 {
		value := fmt.Sprint(n+1, strings.Repeat("x", 1000))
		if fence, err = s.Write(ctx, 0, fence, []store.Change{set("a", value), set("b", value)}); err != nil {
			t.Fatal(err)
		}
		if n%7 == 0 {
			if err := s.Sync(ctx); err != nil {
				t.Fatal(err)
			}
			synced = fence
		}
		after := open(t, Options{Folder: "weir", fs: fs.CrashClone(vfs.CrashCloneCfg{})})
		values, found, err := after.Read(ctx, 0, store.Windows, keys)
		if err != nil {
			t.Fatal(err)
		}
		if found.N < synced.N || found.N > fence.N || found.Owner != fence.Owner {
			t.Fatalf("synced at %v, written until %v, found %v", synced, fence, found)
		}
		for _, value := range values {
			if found.N > 0 && string(value) != fmt.Sprint(found.N, strings.Repeat("x", 1000)) {
				t.Fatalf("at %v a value is %.10q", found, value)
			}
		}
		lost += int(fence.N - found.N)
		after.Close()
	}
	if lost == 0 {
		t.Error("no power was ever lost")
	}
}

// A write survives a later loss of power, even without a call of Sync.
func TestAWriteIsSyncedSoon(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s := open(t, Options{Folder: "weir", fs: fs})
	defer s.Close()
	fence, err := s.Take(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	if fence, err = s.Write(ctx, 0, fence, []store.Change{set("a", "1")}); err != nil {
		t.Fatal(err)
	}
	found := func() store.Fence {
		after := open(t, Options{Folder: "weir", fs: fs.CrashClone(vfs.CrashCloneCfg{})})
		defer after.Close()
		_, found, err := after.Read(ctx, 0, store.Windows, nil)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	for deadline := time.Now().Add(20 * time.Second); found() != fence; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("written until %v, found %v", fence, found())
		}
	}
}

// full makes every write fail while it is set, as a full disk does.
type full struct{ atomic.Bool }

func (f *full) String() string { return "full" }

func (f *full) MaybeError(op errorfs.Op) error {
	if f.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
		return errors.New("no space left on device")
	}
	return nil
}

func TestAFullDisk(t *testing.T) {
	var disk full
	folder := filepath.Join(t.TempDir(), "store")
	s := open(t, Options{Folder: folder, fs: errorfs.Wrap(vfs.Default, &disk)})
	fence, err := s.Take(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	if fence, err = s.Write(ctx, 0, fence, []store.Change{set("a", "1")}); err != nil {
		t.Fatal(err)
	}
	if err := s.Sync(ctx); err != nil {
		t.Fatal(err)
	}
	disk.Store(true)
	err = s.Sync(ctx)
	if err == nil {
		_, err = s.Write(ctx, 0, fence, []store.Change{set("a", "2")})
		err = errors.Join(err, s.Sync(ctx))
	}
	if !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "no space left") {
		t.Fatalf("a full disk: %v", err)
	}
	if _, _, err := s.Read(ctx, 0, store.Windows, [][]byte{[]byte("a")}); !errors.Is(err, ErrBroken) {
		t.Errorf("after that: %v", err)
	}
	if err := s.Close(); !errors.Is(err, ErrBroken) {
		t.Errorf("closing: %v", err)
	}
}

func TestAnotherLayoutIsRefused(t *testing.T) {
	folder := t.TempDir()
	s := open(t, Options{Folder: folder})
	if err := pebbleOf(t, s).Set([]byte("\xff\xff\xff\xfflayout"), []byte("2"), nil); err != nil {
		t.Fatal(err)
	}
	if err := pebbleOf(t, s).Set(fenceKey(3), []byte("new-style"), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Take(ctx, 3); !errors.Is(err, store.ErrForeign) {
		t.Error(err)
	}
	s.Close()
	if _, err := Open(ctx, Options{Folder: folder}); !errors.Is(err, store.ErrForeign) {
		t.Error(err)
	}
}

func TestAFolderThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(ctx, Options{Folder: filepath.Join(file, "store")}); err == nil || !strings.Contains(err.Error(), file) {
		t.Error(err)
	}
}

func TestCloseEndsAllGoroutines(t *testing.T) {
	before := goleak.IgnoreCurrent()
	s := open(t, Options{Folder: t.TempDir()})
	fence, _ := s.Take(ctx, 0)
	if _, err := s.Write(ctx, 0, fence, []store.Change{set("a", "1")}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	goleak.VerifyNone(t, before)
}
