package database

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

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A guard is the file system under one opening of the folder. Pebble panics when a write fails, in its own goroutines
// and with locked mutexes, so that no recover can help. So it never sees a failed write: the first error ends the
// guard, and from then on nothing reaches the disk. Later calls of pebble succeed without effect, so it can be closed
// like any other.
//
// The disk is left as a kill at the moment of the error would have left it: the failed call has not returned when the
// guard ends, so nothing that follows from it is written.
type guard struct {
	vfs.FS
	opening atomic.Bool // missing files are not an error yet
	ended   atomic.Pointer[failure]
	end     sync.Once
	died    chan struct{} // closed when it has ended
	busy    atomic.Int64  // calls inside the operating system
	lock    atomic.Pointer[lock]
	owner   *owner // of the files; nil: this user
}

// An owner is a user and a group.
type owner struct{ user, group int }

// ownerOf returns the owner of a folder, if this process is root and root does not own it: a command of root looks at the
// folder of a service, and what it writes there must stay the service's.
func ownerOf(folder string) *owner {
	if os.Geteuid() != 0 {
		return nil
	}
	found, err := os.Stat(folder)
	if err != nil {
		return nil // opening fails too, and reports it
	}
	stat, ok := found.Sys().(*syscall.Stat_t)
	if !ok || stat.Uid == 0 {
		return nil
	}
	return &owner{int(stat.Uid), int(stat.Gid)}
}

// own gives a new file to the owner.
func (g *guard) own(name string) error {
	if g.owner == nil {
		return nil
	}
	return os.Lchown(name, g.owner.user, g.owner.group)
}

// A failure is the reason why a guard ended.
type failure struct{ reason error }

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
		g.ended.Store(&failure{why})
		close(g.died)
	})
}

// failure returns why the guard has ended, or nil.
func (g *guard) failure() error {
	if f := g.ended.Load(); f != nil {
		return f.reason
	}
	return nil
}

// enter reports whether a call may reach the disk; if so, leave must be called after it.
func (g *guard) enter() bool {
	// Counted before it looks: once the guard has ended and busy is 0, no call can reach the disk any more.
	g.busy.Add(1)
	if g.ended.Load() != nil {
		g.busy.Add(-1)
		return false
	}
	return true
}

func (g *guard) leave() { g.busy.Add(-1) }

// quiet reports whether no call is inside the operating system any more.
func (g *guard) quiet() bool { return g.busy.Load() == 0 }

// change runs an operation whose failure pebble must not see.
func (g *guard) change(do func() error) {
	if !g.enter() {
		return
	}
	defer g.leave()
	if err := do(); err != nil {
		g.fail(err)
	}
}

// make creates a file; when that fails it returns a nothing.
func (g *guard) make(name string, do func() (vfs.File, error)) (file vfs.File) {
	file = nothing{vfs.NewMemFile(nil)}
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
	return g.make(name, func() (vfs.File, error) {
		file, err := g.FS.Create(name, category)
		if err != nil {
			return nil, err
		}
		if err := g.own(name); err != nil {
			return nil, errors.Join(err, file.Close())
		}
		return file, nil
	}), nil
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

// Remove removes a file. A file that is already gone is not an error.
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

// Open opens a file for reading. Pebble survives a failure here, but not a missing file once the store is open.
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

// List returns an empty list when it fails: pebble does not always survive an error in the middle of its Open.
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

// A lock on the folder is released once: by pebble's Close, or earlier, when the folder is to be opened again.
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
	// EAGAIN is another process that has the folder, and no failure of the disk.
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

// unlock makes the folder available to another opening.
func (g *guard) unlock() {
	if l := g.lock.Load(); l != nil {
		_ = l.Close()
	}
}

// A guarded file is a file of a guard.
type guarded struct {
	vfs.File
	g    *guard
	name string
}

// write runs an operation on the file whose failure pebble must not see. An unfinished table is useless: its room is
// freed.
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

// Preallocate is only a hint: the write finds out whether there is room.
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

// nothing replaces a file that could not be created: writes to it are lost. The file in memory stays empty.
type nothing struct{ vfs.File }

func (nothing) Close() error                           { return nil }
func (nothing) Read([]byte) (int, error)               { return 0, errEnded }
func (nothing) ReadAt([]byte, int64) (int, error)      { return 0, errEnded }
func (nothing) Write(b []byte) (int, error)            { return len(b), nil }
func (nothing) WriteAt(b []byte, _ int64) (int, error) { return len(b), nil }
