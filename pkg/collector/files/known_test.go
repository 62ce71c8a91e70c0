package files

import (
	"os"
	"strings"
	"testing"
)

// age lets days pass for the logs of a source that is off.
func (b *bench) age(days int64) {
	b.T.Helper()
	b.open()
	for _, log := range b.known.logs {
		log.day -= days
		b.known.save(log)
	}
	b.stop()
}

// A collector was off, or had nothing to read, for longer than it remembers logs without files. Logs whose files are
// still there are not read again; the others are forgotten later.
func TestFilesAreRememberedAfterMonths(t *testing.T) {
	b := newBench(t, "access.log", "other.log")
	b.Log("access.log", 40)
	b.Rename("access.log", "access.log.1")
	b.Compress("access.log.1", ".gz")
	b.Log("access.log", 30)
	b.Log("other.log", 20)
	b.start()
	b.await()
	b.stop()
	b.Remove("other.log")
	b.age(forgetDays + 10)

	b.start()
	b.Log("access.log", 10)
	b.await()
	known := b.known
	known.forget()
	b.await()
	b.stop()

	var left []string
	b.open()
	for _, log := range b.known.logs {
		left = append(left, log.source)
	}
	b.stop()
	b.start()
	b.await()
	if len(left) != 2 || !strings.HasPrefix(left[0], "access.log") || !strings.HasPrefix(left[1], "access.log") {
		t.Errorf("remembered: %v", left)
	}
}

// A wrong clock at the start makes no log forgotten, once it is right.
func TestAWrongClockForgetsNoLog(t *testing.T) {
	b := newBench(t, "access.log")
	b.Log("access.log", 20)
	b.start()
	b.await()
	b.stop()
	b.Remove("access.log")

	b.start()
	known := b.known
	known.mu.Lock()
	for _, log := range known.logs {
		log.stale = true // as seen by a clock that is months ahead
	}
	known.mu.Unlock()
	known.forget()
	if len(known.logs) != 1 {
		t.Errorf("%d logs are remembered", len(known.logs))
	}
}

// A copy of a log that is being read is found after weeks without requests. The log keeps its position.
func TestACopyOfAQuietLogLeavesItsPosition(t *testing.T) {
	b := newBench(t, "access.log")
	b.Log("access.log", 20)
	b.start()
	b.await()
	known := b.known
	known.mu.Lock()
	log := known.logs[0]
	log.day -= 30
	known.mu.Unlock()
	known.saw(log)
	b.stop()

	b.start()
	b.Log("access.log", 10)
	b.await()
}

// While no process followed the log, its file was moved to where no pattern leads. The next process warns of it, and not
// of logs whose rotated file it finds.
func TestALogThatWasMovedAwayIsReported(t *testing.T) {
	for _, c := range []struct {
		patterns []string
		moved    string
		lost     bool
	}{
		{[]string{"access.log"}, "old/access.log.1", true},
		{[]string{"current"}, "@400000006b03bbe516338284.s", true},
		{[]string{"current", "@*"}, "@400000006b03bbe516338284.s", false},
		{[]string{"access.log"}, "access.log.1", false},
		{[]string{"access.log"}, "access.log-20260301", false},
		{[]string{"access.log"}, "access-20260301.log", true},
		{[]string{"access.log", "access-*.log"}, "access-20260301.log", false},
		{[]string{"access.log"}, "access.log", false},
	} {
		b := newBench(t, c.patterns...)
		live := c.patterns[0]
		b.Log(live, 40)
		b.start()
		b.await()
		b.stop()

		if err := os.MkdirAll(b.Path("old"), 0o700); err != nil {
			t.Fatal(err)
		}
		if live != c.moved {
			b.Rename(live, c.moved)
		}
		b.Log(live, 30)
		b.start()
		b.await()
		if log := b.known.lost(b.Path(live)); (log != nil) != c.lost {
			t.Errorf("%s to %s: %+v is lost", live, c.moved, log)
		}
		b.stop()

		// It is reported once.
		b.Log(live, 30)
		b.start()
		b.await()
		if log := b.known.lost(b.Path(live)); log != nil {
			t.Errorf("%s to %s: %+v is lost at the second start", live, c.moved, log)
		}
		b.stop()
	}
}
