package files

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"weir/test/wait"
)

// A log that is packed as soon as it is rotated is deleted while it is open. It is closed although its packed copy waits
// for it, so that the disk has its room again.
func TestALogThatIsDeletedIsClosed(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("open files cannot be listed here:", err)
	}
	b := newBench(t, "access.log")
	var later atomic.Int64
	b.pipeline.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	requests := func(want uint64) func() bool {
		return func() bool { s := b.source.Status(); return s.CaughtUp && uint64(s.Requests) == want }
	}
	b.Log("access.log", 50)
	b.start()
	wait.Until(t, "the log is read", requests(50))
	b.Rename("access.log", "access.log.1")
	b.Compress("access.log.1", ".gz")
	b.Log("access.log", 10)
	wait.Until(t, "the next log is read", requests(60))

	later.Store(int64(2 * closeAfter))
	wait.Until(t, "the deleted log is closed", func() bool {
		open, err := filepath.Glob("/proc/self/fd/*")
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range open {
			if path, err := os.Readlink(one); err == nil && strings.HasPrefix(path, b.Path("access.log")) && strings.HasSuffix(path, "(deleted)") {
				return false
			}
		}
		return true
	})
	wait.Until(t, "nothing is read twice", requests(60))
}

// A log whose files are gone costs no memory: a process that runs for months sees many such logs, for example one an hour.
func TestALogThatIsDeletedCostsNoMemory(t *testing.T) {
	b := newBench(t, "access.log")
	var later atomic.Int64
	b.pipeline.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	f := b.family("access.log")
	b.Log("access.log", 50)
	f.settle(t)
	if len(f.logs) != 1 {
		t.Fatalf("%d logs are open, want one", len(f.logs))
	}
	kept := weak.Make(f.logs[0].tape)

	if err := os.Remove(b.Path("access.log")); err != nil {
		t.Fatal(err)
	}
	later.Store(int64(2 * closeAfter))
	f.scan()
	f.tidy()
	if len(f.logs) != 0 {
		t.Fatalf("%d logs are open, want none", len(f.logs))
	}
	runtime.GC()
	if kept.Value() != nil {
		t.Error("the log's tape, with its buffer, is still in memory")
	}
	runtime.KeepAlive(f)
}

// A log whose folder was away, as a volume that is mounted again, is read on when it is back and grows.
func TestALogThatWasAwayIsReadOn(t *testing.T) {
	b := newBench(t, "access.log")
	var later atomic.Int64
	b.pipeline.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	f := b.family("access.log")
	b.Log("access.log", 50)
	f.settle(t)
	b.Rename("access.log", "away")
	later.Store(int64(2 * closeAfter))
	f.scan()
	f.tidy()
	if len(f.logs) != 0 {
		t.Fatalf("%d logs are open, want none", len(f.logs))
	}

	b.Rename("away", "access.log")
	if f.changed() {
		t.Error("the log is back as it was, and is looked at again")
	}
	b.Log("access.log", 10)
	if !f.changed() {
		t.Fatal("the log has grown, and is not looked at again")
	}
	f.scan()
	f.settle(t)
	if len(f.logs) != 1 || b.source.Status().Requests != 60 {
		t.Errorf("%d logs are open, %d requests are read; want 1 and 60", len(f.logs), b.source.Status().Requests)
	}
}
