package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A guard is the file system under one opening of the folder. Pebble panics where a write fails, in goroutines of its own
// and with its locks in a state that no recover can mend. So it never sees a failure of a write: the first fault ends the
// guard, and from then on nothing reaches the disk. What pebble does after that succeeds and is forgotten, so it can be
// closed like any other.
//
// The disk is left as a kill at the moment of the fault would have left it: the failed call has not returned when the guard
// ends, so nothing that follows from it is written.
type guard struct {
	vfs.FS
	opening atomic.Bool // files that are missing are no fault yet
	ended   atomic.Pointer[fault]
	end     sync.Once
	died    chan struct{} // closed when it has ended
	busy    atomic.Int64  // calls that are in the system
	lock    atomic.Pointer[lock]
}

// A fault is why a guard ended.
type fault struct{ why error }

var (
	errEnded  = errors.New("the store was given up")
	errNoFile = errors.New("a file of the store is gone")
)

func newGuard(under vfs.FS) *guard {
	g := &guard{FS: under, died: make(chan struct{})}
	g.opening.Store(true)
	return g
}

// fail ends the guard.
func (g *guard) fail(why error) {
	g.end.Do(func() {
		g.ended.Store(&fault{why})
		close(g.died)
	})
}

// fault is why it has ended, nil while it has not.
func (g *guard) fault() error {
	if f := g.ended.Load(); f != nil {
		return f.why
	}
	return nil
}

// enter says whether a call may reach the disk; then leave is called after it.
func (g *guard) enter() bool {
	g.busy.Add(1)
	if g.ended.Load() != nil {
		g.busy.Add(-1)
		return false
	}
	return true
}

func (g *guard) leave() { g.busy.Add(-1) }

// quiet says whether no call is in the system any more.
func (g *guard) quiet() bool { return g.busy.Load() == 0 }

// change does something that pebble must not see fail.
func (g *guard) change(do func() error) {
	if !g.enter() {
		return
	}
	defer g.leave()
	if err := do(); err != nil {
		g.fail(err)
	}
}

// make makes a file; one that cannot be made is nothing.
func (g *guard) make(name string, do func() (vfs.File, error)) (file vfs.File) {
	file = nothing{}
	g.change(func() error {
		made, err := do()
		if err == nil {
			file = &guarded{made, g, name}
		}
		return err
	})
	return file
}

func (g *guard) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return g.make(name, func() (vfs.File, error) { return g.FS.Create(name, category) }), nil
}

func (g *guard) OpenReadWrite(name string, category vfs.DiskWriteCategory, options ...vfs.OpenOption) (vfs.File, error) {
	return g.make(name, func() (vfs.File, error) { return g.FS.OpenReadWrite(name, category, options...) }), nil
}

func (g *guard) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return g.make(to, func() (vfs.File, error) { return g.FS.ReuseForWrite(from, to, category) }), nil
}

func (g *guard) OpenDir(name string) (vfs.File, error) {
	return g.make(name, func() (vfs.File, error) { return g.FS.OpenDir(name) }), nil
}

func (g *guard) Link(from, to string) error {
	g.change(func() error { return g.FS.Link(from, to) })
	return nil
}

func (g *guard) Rename(from, to string) error {
	g.change(func() error { return g.FS.Rename(from, to) })
	return nil
}

func (g *guard) MkdirAll(name string, mode os.FileMode) error {
	g.change(func() error { return g.FS.MkdirAll(name, mode) })
	return nil
}

// Remove removes a file. That it is gone already is no fault.
func (g *guard) Remove(name string) error {
	g.change(func() error { return unlessGone(g.FS.Remove(name)) })
	return nil
}

func (g *guard) RemoveAll(name string) error {
	g.change(func() error { return unlessGone(g.FS.RemoveAll(name)) })
	return nil
}

func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Open opens a file for reading. Pebble may be told that this failed; not that the file is missing, once the store is open.
func (g *guard) Open(name string, options ...vfs.OpenOption) (vfs.File, error) {
	if !g.enter() {
		return nil, errEnded
	}
	defer g.leave()
	file, err := g.FS.Open(name, options...)
	switch {
	case err == nil:
		return &guarded{file, g, name}, nil
	case errors.Is(err, fs.ErrNotExist) && g.opening.Load():
		return nil, err
	case errors.Is(err, fs.ErrNotExist):
		g.fail(fmt.Errorf("%w: %s", errNoFile, name))
	default:
		g.fail(err)
	}

	return nil, errEnded
}

// List finds nothing where it fails: pebble does not always survive that in the middle of its Open.
func (g *guard) List(name string) (names []string, _ error) {
	g.change(func() (err error) {
		names, err = g.FS.List(name)
		return err
	})
	return names, nil
}

func (g *guard) Stat(name string) (vfs.FileInfo, error) {
	if !g.enter() {
		return nil, errEnded
	}
	defer g.leave()
	info, err := g.FS.Stat(name)
	if unlessGone(err) != nil {
		g.fail(err)
	}
	return info, err
}

func (g *guard) GetDiskUsage(path string) (vfs.DiskUsage, error) {
	if !g.enter() {
		return vfs.DiskUsage{}, errEnded
	}
	defer g.leave()
	return g.FS.GetDiskUsage(path)
}

// A lock on the folder is released once: by pebble's Close, or before, when the folder is to be opened again.
type lock struct {
	once sync.Once
	held io.Closer
}

func (l *lock) Close() error {
	var err error
	l.once.Do(func() { err = l.held.Close() })
	return err
}

func (g *guard) Lock(name string) (io.Closer, error) {
	if !g.enter() {
		return nil, errEnded
	}
	defer g.leave()
	held, err := g.FS.Lock(name)
	if errno := syscall.Errno(0); errors.As(err, &errno) && errno != syscall.EAGAIN {
		g.fail(err)
	}
	if err != nil {
		return nil, err
	}

	l := &lock{held: held}
	g.lock.Store(l)
	return l, nil
}

// unlock lets another opening have the folder.
func (g *guard) unlock() {
	if l := g.lock.Load(); l != nil {
		_ = l.Close()
	}
}

// A guarded file is one of a guard.
type guarded struct {
	vfs.File
	g    *guard
	name string
}

// write does something with the file that pebble must not see fail. A table that was not finished is no use to anybody:
// its room is given back.
func (f *guarded) write(do func() error) {
	failed := false
	f.g.change(func() error {
		err := do()
		failed = err != nil
		return err
	})
	if failed && strings.HasSuffix(f.name, ".sst") {
		_ = f.g.FS.Remove(f.name)
	}
}

func (f *guarded) Write(b []byte) (int, error) {
	f.write(func() error { _, err := f.File.Write(b); return err })
	return len(b), nil
}

func (f *guarded) WriteAt(b []byte, at int64) (int, error) {
	f.write(func() error { _, err := f.File.WriteAt(b, at); return err })
	return len(b), nil
}

// Preallocate is a wish: the write finds out whether there is room.
func (f *guarded) Preallocate(at, length int64) error {
	if f.g.enter() {
		defer f.g.leave()
		_ = f.File.Preallocate(at, length)
	}
	return nil
}

func (f *guarded) Sync() error {
	f.write(f.File.Sync)
	return nil
}

func (f *guarded) SyncData() error {
	f.write(f.File.SyncData)
	return nil
}

func (f *guarded) SyncTo(length int64) (full bool, err error) {
	f.write(func() error { full, err = f.File.SyncTo(length); return err })
	return full, nil
}

func (f *guarded) Close() error {
	if err := f.File.Close(); err != nil {
		f.g.fail(err)
	}
	return nil
}

func (f *guarded) Read(b []byte) (int, error) {
	n, err := f.File.Read(b)
	return n, f.read(err)
}

func (f *guarded) ReadAt(b []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(b, at)
	return n, f.read(err)
}

func (f *guarded) read(err error) error {
	if err != nil && !errors.Is(err, io.EOF) {
		f.g.fail(err)
	}
	return err
}

func (f *guarded) Stat() (vfs.FileInfo, error) {
	info, err := f.File.Stat()
	return info, f.read(err)
}

// nothing is a file that could not be made: what is written to it is gone.
type nothing struct{}

func (nothing) Close() error                           { return nil }
func (nothing) Read([]byte) (int, error)               { return 0, errEnded }
func (nothing) ReadAt([]byte, int64) (int, error)      { return 0, errEnded }
func (nothing) Write(b []byte) (int, error)            { return len(b), nil }
func (nothing) WriteAt(b []byte, _ int64) (int, error) { return len(b), nil }
func (nothing) Preallocate(int64, int64) error         { return nil }
func (nothing) Stat() (vfs.FileInfo, error)            { return noInfo{}, nil }
func (nothing) Sync() error                            { return nil }
func (nothing) SyncTo(int64) (bool, error)             { return true, nil }
func (nothing) SyncData() error                        { return nil }
func (nothing) Prefetch(int64, int64) error            { return nil }
func (nothing) Fd() uintptr                            { return vfs.InvalidFd }

type noInfo struct{}

func (noInfo) Name() string           { return "" }
func (noInfo) Size() int64            { return 0 }
func (noInfo) Mode() os.FileMode      { return 0 }
func (noInfo) ModTime() time.Time     { return time.Time{} }
func (noInfo) IsDir() bool            { return false }
func (noInfo) Sys() any               { return nil }
func (noInfo) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }
