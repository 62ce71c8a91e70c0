package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"go.uber.org/goleak"

	"weir/internal/database"
	"weir/internal/store"
	"weir/test/locked"
	"weir/test/real"
	"weir/test/wait"
)

// faulty is a disk on which everything fails from its n-th operation on, until it is repaired.
type faulty struct {
	left   atomic.Int64
	all    bool // reading fails too
	mended atomic.Bool
}

func (f *faulty) String() string { return "faulty" }

func (f *faulty) MaybeError(op errorfs.Op) error {
	if f.mended.Load() || !f.all && op.Kind.ReadOrWrite() != errorfs.OpIsWrite || f.left.Add(-1) >= 0 {
		return nil
	}
	return &os.PathError{Op: "write", Path: op.Path, Err: syscall.ENOSPC}
}

// A writer writes until the disk fails, and remembers what is synced.
type writer struct {
	store           *Store
	fence           store.Fence
	written, synced uint64
}

func (w *writer) write(n int) error {
	var changes []store.Change
	for i := range 40 {
		changes = append(changes, set(fmt.Sprint("key", i), fmt.Sprint(n, strings.Repeat("x", 2000))))
	}
	next, err := w.store.Write(ctx, 1, w.fence, changes)
	if err != nil {
		return err
	}
	w.fence, w.written = next, next.N
	if n%5 == 0 {
		if err = w.store.Sync(ctx); err == nil {
			w.synced = w.fence.N
		}
	}
	return err
}

// Any operation on the disk may fail, in any goroutine of pebble: the process lives, and calls return that the disk is
// broken. When the disk works again the store has the state of some fence, and no earlier one than the last Sync.
func TestADiskFailsAtAnyOperation(t *testing.T) {
	for _, all := range []bool{false, true} {
		for n := int64(1); n < 400; n += 1 + n/3 {
			t.Run(fmt.Sprintf("all=%v/%d", all, n), func(t *testing.T) {
				t.Parallel()
				failsAt(t, &faulty{all: all}, n)
			})
		}
	}
}

func failsAt(t *testing.T, disk *faulty, n int64) {
	disk.mended.Store(true)
	s := open(t, Options{Folder: "weir", MemoryBytes: 1 << 20, fs: errorfs.Wrap(vfs.NewMem(), disk)})
	w := &writer{store: s}
	var err error
	if w.fence, err = s.Take(ctx, 1); err != nil {
		t.Fatal(err)
	}
	disk.left.Store(n)
	disk.mended.Store(false)
	for i := 1; err == nil && i < 400; i++ {
		err = w.write(i)
	}
	if !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "no space left") {
		t.Fatalf("a full disk: %v", err)
	}
	if _, _, err := s.Read(ctx, 1, store.Windows, nil); !errors.Is(err, ErrBroken) {
		t.Fatalf("while it is full: %v", err)
	}
	disk.mended.Store(true)
	var values [][]byte
	var found store.Fence
	wait.Until(t, "the store works again", func() bool {
		values, found, err = s.Read(ctx, 1, store.Windows, [][]byte{[]byte("key0"), []byte("key39")})
		return err == nil
	})
	if found.Owner != w.fence.Owner || found.N < w.synced || found.N > w.written+1 {
		t.Fatalf("synced at %d, written until %d, found %v", w.synced, w.written, found)
	}
	for _, value := range values {
		if found.N > 0 && string(value) != fmt.Sprint(found.N, strings.Repeat("x", 2000)) {
			t.Fatalf("at %v a value is %.10q", found, value)
		}
	}
	if w.fence, err = s.Take(ctx, 1); err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		if err := w.write(i); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// However long and often a disk fails, its goroutines end, and the log has only a few lines about it.
func TestABrokenDiskLeavesNothingBehind(t *testing.T) {
	before := goleak.IgnoreCurrent()
	var text locked.Buffer
	var disk full
	s := open(t, Options{Folder: "weir", fs: errorfs.Wrap(vfs.NewMem(), &disk), Log: slog.New(slog.NewTextHandler(&text, nil))})
	for n := range 3 {
		fence, err := s.Take(ctx, 0)
		if err != nil {
			t.Fatal(n, err)
		}
		disk.Store(true)
		for range 1000 {
			if fence, err = s.Write(ctx, 0, fence, []store.Change{set("a", "1")}); err != nil {
				break
			}
			err = s.Sync(ctx)
		}
		if !errors.Is(err, ErrBroken) {
			t.Fatal(err)
		}
		time.Sleep(3 * lookEvery) // keep checks the disk meanwhile
		disk.Store(false)
		wait.Until(t, "the store works again", func() bool {
			_, err := s.Take(ctx, 0)
			return err == nil
		})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	goleak.VerifyNone(t, before)
	if lines := strings.Count(text.String(), "\n"); lines != 6 {
		t.Errorf("%d lines for three faults:\n%s", lines, text.String())
	}
}

func TestClosingABrokenStore(t *testing.T) {
	before := goleak.IgnoreCurrent()
	var disk full
	s := open(t, Options{Folder: "weir", fs: errorfs.Wrap(vfs.NewMem(), &disk)})
	disk.Store(true)
	if _, err := s.Take(ctx, 0); !errors.Is(err, ErrBroken) {
		t.Fatal(err)
	}
	if err := s.Close(); !errors.Is(err, ErrBroken) {
		t.Error(err)
	}
	goleak.VerifyNone(t, before)
}

// A disk that hangs blocks no caller beyond its context, and does not prevent the end of the store.
func TestADiskThatHangs(t *testing.T) {
	release := make(chan struct{})
	var hangs atomic.Bool
	hang := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if hangs.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			<-release
		}
		return nil
	})
	s := open(t, Options{Folder: "weir", fs: errorfs.Wrap(vfs.NewMem(), hang)})
	hangs.Store(true)
	for range 3 {
		brief, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		if _, err := s.Take(brief, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		cancel()
	}
	hangs.Store(false)
	close(release)
	if _, err := s.Take(ctx, 0); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A folder that is full at the start has its own error, and opens when there is room.
func TestOpeningOnAFullDisk(t *testing.T) {
	for n := int64(0); n < 60; n++ {
		disk := &faulty{}
		fs := errorfs.Wrap(vfs.NewMem(), disk)
		disk.mended.Store(true)
		s := open(t, Options{Folder: "weir", MemoryBytes: 1 << 20, fs: fs})
		w := &writer{store: s}
		w.fence, _ = s.Take(ctx, 1)
		for i := 1; i < 20; i++ {
			if err := w.write(i); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		disk.left.Store(n)
		disk.mended.Store(false)
		s, err := Open(ctx, Options{Folder: "weir", MemoryBytes: 1 << 20, fs: fs})
		if err == nil {
			s.Close() // it needed no more
		} else if !errors.Is(err, ErrBroken) {
			t.Fatalf("%d: %v", n, err)
		}
		disk.mended.Store(true)
		s = open(t, Options{Folder: "weir", MemoryBytes: 1 << 20, fs: fs})
		if _, found, err := s.Read(ctx, 1, store.Windows, nil); err != nil || found != w.fence {
			t.Fatalf("%d: %v, %v; written until %v", n, found, err, w.fence)
		}
		s.Close()
	}
}

func TestARealDiskThatIsFull(t *testing.T) {
	disk, here := real.SmallDisk(t, "24m")
	if !here {
		return
	}
	o := Options{Folder: filepath.Join(disk, "store"), MemoryBytes: 8 << 20}
	s := open(t, o)
	w := &writer{store: s}
	var err error
	if w.fence, err = s.Take(ctx, 1); err != nil {
		t.Fatal(err)
	}
	for i := 1; i < 20; i++ {
		if err = w.write(i); err != nil {
			t.Fatal(err)
		}
	}
	filler := filepath.Join(disk, "filler")
	if err := os.WriteFile(filler, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fill(t, filler)
	for i := 20; err == nil && i < 1000; i++ {
		err = w.write(i)
	}
	if !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "no space left") {
		t.Fatal(err)
	}
	fill(t, filler) // the room that the store freed
	if err := s.Close(); !errors.Is(err, ErrBroken) {
		t.Error(err)
	}
	if s, err := Open(ctx, o); !errors.Is(err, ErrBroken) {
		t.Fatalf("%v, %v on a full disk", s, err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	s = open(t, o)
	if _, found, err := s.Read(ctx, 1, store.Windows, nil); err != nil || found.N < w.synced || found.N > w.written+1 {
		t.Errorf("synced at %d, written until %d, found %v, %v", w.synced, w.written, found, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// fill adds to a file until the disk is full.
func fill(t *testing.T, name string) {
	t.Helper()
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for err == nil {
		_, err = file.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

// A folder that is deleted while it is open is noticed without a call, and created again, empty.
func TestAFolderThatIsDeleted(t *testing.T) {
	for name, remove := range map[string]func(folder string) error{
		"the folder": os.RemoveAll,
		"all in it": func(folder string) error {
			files, err := filepath.Glob(filepath.Join(folder, "*"))
			for _, file := range files {
				err = errors.Join(err, os.Remove(file))
			}
			return err
		},
		"renamed": func(folder string) error { return os.Rename(folder, folder+".old") },
	} {
		t.Run(name, func(t *testing.T) {
			var text locked.Buffer
			folder := filepath.Join(t.TempDir(), "store")
			s := open(t, Options{Folder: folder, Log: slog.New(slog.NewTextHandler(&text, nil))})
			fence, err := s.Take(ctx, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := remove(folder); err != nil {
				t.Fatal(err)
			}
			wait.Until(t, "it is logged", func() bool { return strings.Contains(text.String(), database.ErrFolderGone.Error()) })
			wait.Until(t, "it is made again", func() bool { return strings.Contains(text.String(), "works again") })
			if _, found, err := s.Read(ctx, 0, store.Windows, nil); err != nil || found != (store.Fence{}) {
				t.Errorf("found %v, %v", found, err)
			}
			if _, err := s.Write(ctx, 0, fence, nil); !errors.Is(err, store.ErrFenced) {
				t.Error(err)
			}
			if _, err := s.Take(ctx, 0); err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWithoutDescriptors runs itself as a process that has none left.
func TestWithoutDescriptors(t *testing.T) {
	if folder := os.Getenv("WEIR_TEST_DESCRIPTORS"); folder != "" {
		withoutDescriptors(t, folder)
		return
	}
	program := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWithoutDescriptors$", "-test.v")
	program.Env = append(os.Environ(), "WEIR_TEST_DESCRIPTORS="+t.TempDir())
	output, err := program.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	if lines := bytes.Count(output, []byte("level=")); lines == 0 || lines > 20 {
		t.Errorf("it logs %d lines:\n%.2000s", lines, output)
	}
}

func withoutDescriptors(t *testing.T, folder string) {
	s := open(t, Options{Folder: folder, MemoryBytes: 1 << 20, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	w := &writer{store: s}
	var err error
	if w.fence, err = s.Take(ctx, 1); err != nil {
		t.Fatal(err)
	}
	used, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	few := limit
	few.Cur = uint64(len(used) - 1)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	for i := 1; err == nil && i < 4000; i++ {
		err = w.write(i)
	}
	if !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "too many open files") {
		t.Fatal(err)
	}
	few.Cur = 3 // descriptors that are closed now must not help
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	time.Sleep(6 * lookEvery) // keep checks, and tries no more than that
	if _, err := s.Take(ctx, 1); !errors.Is(err, ErrBroken) {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the store works again", func() bool {
		_, err := s.Take(ctx, 1)
		return err == nil
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	t.Log("used " + strconv.Itoa(len(used)))
}

// A folder whose files are damaged does not end the process. The error states that the folder can be moved away, and
// passes once that is done. Repeated tries do not leave more and more files there.
func TestADamagedFolderIsWaitedFor(t *testing.T) {
	for _, damaged := range []string{"MANIFEST-*", "OPTIONS-*", "marker.format-version.*"} {
		t.Run(damaged, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "store")
			s := open(t, Options{Folder: folder})
			if _, err := s.Take(ctx, 1); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			names, err := filepath.Glob(filepath.Join(folder, damaged))
			if err != nil || len(names) == 0 {
				t.Fatal(names, err)
			}
			for _, name := range names {
				if strings.HasPrefix(damaged, "marker") {
					err = os.Remove(name)
				} else {
					err = os.WriteFile(name, bytes.Repeat([]byte("damage"), 50), 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			var files []int
			for range 10 {
				s, err := Open(ctx, Options{Folder: folder})
				if !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "move "+folder+" away") {
					t.Fatalf("%v, %v of a damaged folder", s, err)
				}
				entries, err := os.ReadDir(folder)
				if err != nil {
					t.Fatal(err)
				}
				files = append(files, len(entries))
			}
			if files[9] > files[1] {
				t.Errorf("files in the folder, try by try: %v", files)
			}
			if err := os.Rename(folder, folder+".damaged"); err != nil {
				t.Fatal(err)
			}
			s = open(t, Options{Folder: folder})
			if _, err := s.Take(ctx, 1); err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A folder that another process has is not damaged.
func TestAFolderInUseIsNotDamaged(t *testing.T) {
	folder := t.TempDir()
	s := open(t, Options{Folder: folder})
	if other, err := Open(ctx, Options{Folder: folder}); err == nil || errors.Is(err, ErrBroken) {
		t.Errorf("%v, %v", other, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// lookEvery is how often the database looks whether its folder is there.
const lookEvery = 500 * time.Millisecond
