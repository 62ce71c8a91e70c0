package journald_test

import (
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/pkg/collector/journald"
	"weir/pkg/collector/ordered"
	"weir/test/journals"
	"weir/test/streams"
	"weir/test/wait"
)

// A bench is a folder of journals, and a collector that reads them.
type bench struct {
	*streams.Bench
	folder  string
	options journald.Options
}

func newBench(t *testing.T) *bench {
	t.Helper()
	t.Parallel()
	b := &bench{folder: filepath.Join(t.TempDir(), "journal[1]")}
	if err := os.Mkdir(b.folder, 0o700); err != nil {
		t.Fatal(err)
	}
	b.options.Folder = b.folder
	b.Bench = streams.New(t, "journald", func() ([]ordered.Log, error) { return journald.Open(b.options) })
	b.Source.Ordered.Grows = true
	return b
}

func (b *bench) writer(log string) *journals.Writer {
	b.T.Helper()
	return journals.Start(b.T, b.folder, log)
}

// children returns the processes of journalctl that this process has started for the bench.
func (b *bench) children() (pids []int) {
	b.T.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		b.T.Fatal(err)
	}
	for _, path := range all {
		text, _ := os.ReadFile(path) // it may have ended
		if strings.HasPrefix(string(text), "journalctl\x00") && strings.Contains(string(text), filepath.Dir(b.folder)) {
			pid, _ := strconv.Atoi(strings.Split(path, "/")[2])
			pids = append(pids, pid)
		}
	}
	return pids
}

// Each entry counts once, in several logs, although the collector, the writers and the children are stopped and killed.
func TestEntriesAreCountedOnce(t *testing.T) {
	b := newBench(t)
	system, user := b.writer("system"), b.writer("user-1000")
	system.Add(b.Lines(5000))
	user.Add(b.Lines(10))
	b.Start()
	b.Await()
	system.Add(b.Lines(1))
	b.Await()
	b.Restart(func() { system.Add(b.Lines(100)) })
	b.Await()
	b.Sink.Set(func() { b.Sink.Mute = true })
	system.Add(b.Lines(50))
	b.Sink.Await(t, b.Want)
	system.Settle()
	system.Kill()
	for _, pid := range b.children() {
		process, err := os.FindProcess(pid)
		if err == nil {
			err = process.Kill()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	b.Says("journalctl: signal: killed")
	system.Restart()
	b.Sink.Unmute()
	system.Add(b.Lines(20))
	user.Add(b.Lines(20))
	b.writer("remote-web1").Add(b.Lines(30)) // a log that was not there before
	b.Await()
	logs, sum := b.Status().Logs, int64(0)
	for _, log := range logs {
		sum += log.Position - log.Lag
	}
	if len(logs) != 3 || sum != 5231 {
		t.Errorf("the status is %+v", logs)
	}
	b.Stop()
	wait.Until(t, "the children to have ended", func() bool { return len(b.children()) == 0 })
}

// A log goes on in other files, of the same series and of others, also where their times are before those of the first
// one. All are read once, also when several came while the collector was away.
func TestSeriesFollowEachOther(t *testing.T) {
	b := newBench(t)
	w := b.writer("system")
	at := time.Now()
	add := func(n int, shift time.Duration) {
		for _, line := range b.Lines(n) {
			w.Entry(at.Add(shift), "MESSAGE="+line)
		}
		w.Settle()
	}
	add(20, 0)
	b.Start()
	b.Await()
	for n := range 6 {
		w.Kill()
		if n%2 == 0 {
			w.Rename()
		}
		w.Restart()
		add(30, time.Duration(n%3-2)*time.Hour)
		switch n {
		case 0:
			b.Await()
			b.Stop()
		case 3:
			b.Start()
			b.Await()
			b.Restart(func() {})
		}
	}
	b.Await()
	if names := b.Sink.Sources(t); len(names) != 1 {
		t.Errorf("the log has the names %v", names)
	}
}

// A folder without files is read from the first entry once there are some, whatever start says.
func TestAFolderThatIsMissing(t *testing.T) {
	b := newBench(t)
	b.Source.Ordered.Start.Latest = true
	if err := os.Remove(b.folder); err != nil {
		t.Fatal(err)
	}
	b.Start()
	b.Trouble("it does not exist")
	if b.CaughtUp() {
		t.Error("a source without a folder has caught up")
	}
	if err := os.Mkdir(b.folder, 0o700); err != nil {
		t.Fatal(err)
	}
	b.Trouble("has no journal files")
	w := b.writer("system")
	w.Add(b.Lines(20))
	b.Await()
	w.Stop()
	b.Restart(func() {
		if err := os.RemoveAll(b.folder); err != nil {
			t.Fatal(err)
		}
	})
	b.Trouble("it does not exist")
}

// Files that are deleted before they are read are counted as lost, and those that were read are not.
func TestFilesThatAreDeleted(t *testing.T) {
	b := newBench(t)
	w := b.writer("system")
	next := func(lines []string) {
		w.Kill()
		w.Restart()
		w.Add(lines)
		w.Settle()
	}
	old := func() {
		paths := w.Old()
		for _, path := range paths {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		if len(paths) == 0 {
			t.Fatal("no file can be deleted")
		}
	}
	w.Add(b.Lines(20))
	w.Settle()
	b.Start()
	b.Await()
	next(b.Lines(10))
	b.Await()
	old()
	b.Restart(func() {})
	b.Await()
	if said := b.Said.String(); strings.Contains(said, "deleted") {
		t.Error(said)
	}
	b.Restart(func() {
		next(b.Unread(15))
		next(b.Lines(5))
		old()
	})
	b.Await()
	b.Says("entries=15 from=30 to=45")
	if lost := b.Status().Lost; lost != 15 {
		t.Errorf("%d entries are lost", lost)
	}

	// A filter does not show whether any of them were meant.
	b.Restart(func() {
		b.options.Matches = []string{"SYSLOG_IDENTIFIER=nginx"}
		next(b.Unread(15))
		next(b.Lines(5))
		old()
	})
	b.Await()
	if lost := b.Status().Lost; lost != 0 {
		t.Errorf("%d entries are lost", lost)
	}
}

// An old file that is cut off, as after a loss of power, does not keep the others from being read. Its entries are lost.
// While it may still be a copy that is being made, or the file that entries are added to, the status names it.
func TestAFileThatIsCutOff(t *testing.T) {
	b := newBench(t)
	w := b.writer("system")
	w.Add(b.Lines(20))
	w.Settle()
	b.Start()
	b.Await()
	b.Restart(func() {
		w.Add(b.Unread(10))
		w.Settle()
		w.Kill()
		info, err := os.Stat(w.Path)
		if err == nil {
			err = os.Truncate(w.Path, info.Size()/2)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	b.Trouble("system.journal is cut off")
	w.Rename()
	w.Restart()
	w.Add(b.Lines(5))
	b.Trouble("@")
	long := time.Now().Add(-time.Hour)
	for _, path := range w.Old() {
		if err := os.Chtimes(path, long, long); err != nil {
			t.Fatal(err)
		}
	}
	b.Await()
	b.Says("perhaps with entries that were not read")
}

// A journal without the entry that was read last, of the same series or of another, is read from the entries on that are
// newer.
func TestAJournalThatGoesBack(t *testing.T) {
	for name, more := range map[string]int{"and is shorter": 5, "and is longer": 50, "and is made again": 0} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			w := b.writer("system")
			w.Add(b.Lines(100))
			w.Stop()
			if err := os.CopyFS(b.folder+".old", os.DirFS(b.folder)); err != nil {
				t.Fatal(err)
			}
			w.Restart()
			w.Add(b.Lines(20))
			w.Settle()
			b.Start()
			b.Await()
			b.Stop()
			w.Stop()
			if err := os.RemoveAll(b.folder); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(b.folder+".old", b.folder); err != nil {
				t.Fatal(err)
			}
			if more == 0 {
				if err := os.Remove(w.Path); err != nil {
					t.Fatal(err)
				}
			}
			w.Restart()
			if more > 0 {
				w.Add(b.Lines(more))
				w.Settle()
			}
			b.Start()
			want := "the journal went back"
			if more == 0 {
				w.Entry(time.Now().Add(-time.Hour), "MESSAGE="+b.Unread(1)[0]) // one that was read already, as in a copy
				w.Add(b.Lines(30))
				want = "are gone, perhaps with entries that were not read"
			}
			b.Says(want)
			b.Await()
			w.Add(b.Lines(5))
			b.Await()
			b.Restart(func() {})
			b.Await()
			if n := strings.Count(b.Said.String(), want); n != 1 {
				t.Errorf("the log has %d times %s", n, want)
			}
		})
	}
}

// The journal of another machine in the same folder is another log, and read from its first entry.
func TestTheJournalOfAnotherMachine(t *testing.T) {
	b := newBench(t)
	w := b.writer("system")
	w.Add(b.Lines(20))
	w.Settle()
	b.Start()
	b.Await()
	b.Stop()
	w.Stop()
	w.Rename()
	w.Restart()
	w.Add(b.Lines(30))
	w.Stop()
	if err := os.Remove(w.Old()[0]); err != nil {
		t.Fatal(err)
	}
	of, err := os.OpenFile(w.Path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer of.Close()
	if _, err := of.WriteAt([]byte("another machine."), 40); err != nil {
		t.Fatal(err)
	}
	b.Start()
	b.Says("the journal of another machine")
	b.Await()
}

// start decides where a journal begins about which nothing is stored, also where that is not its first file.
func TestStart(t *testing.T) {
	for name, start := range map[string]func(*streams.Bench){
		"latest":   func(b *streams.Bench) { b.Source.Ordered.Start.Latest = true },
		"duration": func(b *streams.Bench) { b.Source.Ordered.Start.Before = time.Hour },
		"earliest": func(*streams.Bench) {},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			start(b.Bench)
			w := b.writer("system")
			lines := b.Unread
			if name == "earliest" {
				lines = b.Lines
			}
			for _, line := range lines(7) {
				w.Entry(time.Now().Add(-3*time.Hour), "MESSAGE="+line)
			}
			w.Stop()
			w.Rename()
			w.Restart()
			for _, line := range lines(7) {
				w.Entry(time.Now().Add(-2*time.Hour), "MESSAGE="+line)
			}
			if name == "duration" {
				w.Add(b.Lines(8))
			}
			w.Settle()
			b.Start()
			b.Settle()
			w.Add(b.Lines(5))
			b.Await()
			if status := b.Status(); len(status.Uncounted) > 0 {
				t.Errorf("the status is %+v", status)
			}
		})
	}
}

// A filter takes some entries, also of a journal that has many others, and fields that are named make a record.
func TestFiltersAndFields(t *testing.T) {
	b := newBench(t)
	w := b.writer("system")
	b.options.Matches = []string{"_SYSTEMD_UNIT=nginx.service", "_SYSTEMD_UNIT=other.service", "SYSLOG_IDENTIFIER=nginx"}
	others := func(n int) {
		for range n {
			w.Entry(time.Now(), "MESSAGE=other", "_SYSTEMD_UNIT=nginx.service")
		}
	}
	others(12_000)
	w.Add(b.Lines(5))
	others(12_000)
	w.Settle()
	b.Start()
	b.Await()
	if status := b.Status(); len(status.Uncounted) > 0 || status.Logs[0].Position < 24_000 {
		t.Errorf("the status is %+v", status)
	}
	w.Add(b.Lines(5))
	others(5)
	b.Await()
	b.Restart(func() {
		b.options.Fields = []string{"_HOSTNAME", "RAW"}
		b.Source.Options.Line = "MESSAGE"
		b.Source.Envelope = "auto"
	})
	b.Source.Envelope = "none"
	for _, line := range b.Lines(100) {
		w.Entry(time.Now(), "MESSAGE="+line, "_SYSTEMD_UNIT=other.service", "SYSLOG_IDENTIFIER=nginx", "_HOSTNAME=web1", "RAW=\xff\x00\n\"")
	}
	b.Await()
}

// Lines with any bytes are read as they are. A long one is counted as such, and long fields that are not named are not
// kept.
func TestLongAndBinaryFields(t *testing.T) {
	b := newBench(t)
	w := b.writer("system")
	add := func(line string, size int, more ...string) {
		line = strings.TrimSuffix(line, `test"`) + strings.Repeat("x", size) + `"`
		w.Entry(time.Now(), append(more, "MESSAGE="+line)...)
	}
	add(b.Lines(1)[0], 1<<20)
	add(b.Unread(1)[0], 17<<20)
	add(b.Lines(1)[0], 1, "HUGE="+strings.Repeat("\x00", 20<<20))
	w.Entry(time.Now(), "MESSAGE="+strings.Replace(b.Lines(1)[0], "test", "\xff\xfe", 1))
	w.Entry(time.Now(), "NONE=1")
	b.Start()
	b.Await()

	want := map[string]int64{"long": 1}
	wait.Until(t, "an entry that does not count", func() bool { return maps.Equal(b.Status().Uncounted, want) })
}

// A journalctl that finds another file under the name of its own drops the one that it was reading, with the entries that
// it had not read there. They count all the same. A script stands in for the first journalctl, so that this happens.
func TestARotationUnderTheChild(t *testing.T) {
	b := newBench(t)
	w := b.writer("system")
	w.Add(b.Lines(1000))
	w.Settle()

	b.options = b.options.LookingEvery(20 * time.Second) // the script is first
	b.firstChild(`
	journalctl "$@"
	until ls '` + b.folder + `'/system@* >/dev/null 2>&1; do sleep 0.01; done
	sleep 1
	exec journalctl --follow "$@" # of the file that has the name now`)
	b.Start()
	b.Await()
	for n := 0; len(w.Old()) == 0; n++ {
		if n == 100 {
			t.Fatal("the journal was not rotated")
		}
		w.Add(b.Lines(5000))
		w.Settle()
	}
	w.Add(b.Lines(10))
	b.Await()
}

// firstChild makes a script stand in for the first journalctl that follows the bench's folder. Its arguments are without
// --follow.
func (b *bench) firstChild(script string) {
	b.T.Helper()
	path.Lock()
	defer path.Unlock()
	programs, before := b.T.TempDir(), os.Getenv("PATH")
	script = `#!/bin/sh
PATH='` + before + `'
case "$*" in *"` + filepath.Base(filepath.Dir(filepath.Dir(b.folder))) + `"*--follow*) ;; *) exec journalctl "$@" ;; esac
mkdir '` + programs + `/begun' 2>/dev/null || exec journalctl "$@"
for argument; do
	shift
	[ "$argument" = --follow ] || set -- "$@" "$argument"
done
` + script + "\n"
	if err := os.WriteFile(filepath.Join(programs, "journalctl"), []byte(script), 0o700); err != nil {
		b.T.Fatal(err)
	}
	os.Setenv("PATH", programs+":"+before) // the script leaves other tests alone, and the folder is removed
}

var path sync.Mutex // of tests that change PATH

// An entry that journalctl reads while it is being written has no MESSAGE, and counts all the same, also when no other
// comes after it. One that has none at all keeps no other from being read. A script stands in for the first journalctl.
func TestAnEntryThatIsBeingWritten(t *testing.T) {
	for name, more := range map[string]int{"the last one": 0, "others follow": 5} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			w := b.writer("system")
			w.Add(b.Lines(7))
			w.Settle()
			b.firstChild(`
journalctl "$@" | sed '/^MESSAGE=.*n=7 /d'
exec sleep 60`)
			b.Start()
			b.Await()
			for range more {
				w.Entry(time.Now(), "NONE=1")
				w.Add(b.Lines(1))
			}
			b.Await()
			w.Entry(time.Now(), "NONE=1")
			b.Await()
		})
	}
}

// A rotation by the journal itself goes on in the same series.
func TestARotationOfTheJournal(t *testing.T) {
	b := newBench(t)
	w := b.writer("system")
	b.Start()
	for n := 0; n < 250_000; n += 5000 {
		w.Add(b.Lines(5000))
	}
	b.Await()
	if len(w.Old()) == 0 {
		t.Error("the journal was not rotated")
	}
	if log := b.Status().Logs[0]; log.Position != 250_000 {
		t.Errorf("the status is %+v", log)
	}
}
