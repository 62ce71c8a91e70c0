package collector

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// randomEntries are some of each kind, of a few logs.
func randomEntries(random *rand.Rand, count int) (entries []entry) {
	to := map[string]int64{}
	for range count {
		source := fmt.Sprintf("access.log/%d", random.IntN(3))
		switch random.IntN(6) {
		case 0:
			entries = append(entries, entry{kind: entryLog, log: logState{source, to[source], noTime, []byte("note")}})
		case 1:
			entries = append(entries, entry{kind: entryForget, log: logState{source: source}})
		case 2, 3:
			entries = append(entries, entry{kind: entryDone, log: logState{source: source, position: to[source]}})
		default:
			c := &cut{source: source, from: to[source], to: to[source] + 1 + random.Int64N(1000), clock: random.Int64(), fingerprint: "f", reached: random.Int64N(10), note: []byte{1}}
			for range random.IntN(3) {
				c.batches = append(c.batches, batch{random.IntN(16), random.IntN(100), bytes.Repeat([]byte{7}, random.IntN(50))})
			}
			to[source] = c.to
			entries = append(entries, entry{kind: entryCut, cut: c})
		}
	}
	return entries
}

// says is the state in a form that can be compared.
func (s *state) says() string {
	var text strings.Builder
	for n := range 3 {
		source := fmt.Sprintf("access.log/%d", n)
		if log := s.logs[source]; log != nil {
			fmt.Fprintf(&text, "%+v\n", *log)
		}
		for _, c := range s.cuts[source] {
			fmt.Fprintln(&text, c.from, c.to, c.clock, c.reached, string(c.note), c.batches)
		}
	}
	return text.String()
}

// TestAJournalThatIsCutOffAnywhereKeepsItsEntries cuts a journal at every byte: it keeps the entries before that byte.
func TestAJournalThatIsCutOffAnywhereKeepsItsEntries(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	data := header{"id", 1}.bytes()
	begins := len(data)
	said := map[int64]string{int64(begins): ""}
	twin := newState()
	for _, e := range randomEntries(random, 40) {
		data = e.append(data)
		twin.apply(e)
		said[int64(len(data))] = twin.says()
	}
	for n := begins; n <= len(data); n++ {
		read := newState()
		h, sound, err := read.read(bytes.Clone(data[:n]))
		if err != nil || h == nil || h.collector != "id" {
			t.Fatalf("%d bytes: %v %v", n, h, err)
		}
		want, whole := said[sound]
		if !whole || read.says() != want {
			t.Fatalf("%d bytes: the first %d say\n%swant\n%s", n, sound, read.says(), want)
		}
		if _, next := said[int64(n)]; next && sound != int64(n) {
			t.Fatalf("of %d sound bytes %d were read", n, sound)
		}
	}
}

func TestARewrittenJournalHasTheSameContent(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 2))
	for range 100 {
		before, after := newState(), newState()
		for _, e := range randomEntries(random, random.IntN(40)) {
			before.apply(e)
		}
		if _, _, err := after.read(before.append(header{"id", 2}.bytes())); err != nil {
			t.Fatal(err)
		}
		if before.says() != after.says() {
			t.Fatalf("it says\n%swant\n%s", after.says(), before.says())
		}
	}
}

// FuzzJournal reads bytes of any kind.
//
//   - nothing panics;
//   - a state that is read and written again is the same.
func FuzzJournal(f *testing.F) {
	data := header{"id", 1}.bytes()
	f.Add(bytes.Clone(data))
	for _, e := range randomEntries(rand.New(rand.NewPCG(3, 3)), 10) {
		data = e.append(data)
		f.Add(bytes.Clone(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cutEntry(data)
		readIdentity(data)
		read, again := newState(), newState()
		h, _, err := read.read(data)
		if err != nil || h == nil {
			return
		}
		if _, _, err := again.read(read.append(h.bytes())); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(read.logs, again.logs) {
			t.Fatal("written anew, the logs are others")
		}
	})
}

// heardLines keeps what is logged.
type heardLines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *heardLines) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *heardLines) has(words string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.text.String(), words)
}

func (s *heardLines) count(words string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.text.String(), words)
}

func (b *bench) listen() *heardLines {
	s := &heardLines{}
	b.config.Logger = slog.New(slog.NewTextHandler(io.MultiWriter(s, b.t.Output()), nil))
	return s
}

func (b *bench) journal() []byte {
	b.t.Helper()
	data, err := os.ReadFile(b.config.Folder + "/journal")
	if err != nil {
		b.t.Fatal(err)
	}
	return data
}

func (b *bench) setJournal(data []byte) {
	b.t.Helper()
	if err := os.WriteFile(b.config.Folder+"/journal", data, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// TestAJournalThatWentBackIsAConflict simulates a loss of power that takes synced bytes: nothing is counted twice, and
// nothing is skipped without a report.
func TestAJournalThatWentBackIsAConflict(t *testing.T) {
	for _, test := range []struct {
		name string
		back func(b *bench, early []byte) []byte
	}{
		{"to an earlier one", func(_ *bench, early []byte) []byte { return early }},
		{"cut off", func(b *bench, _ []byte) []byte {
			data := b.journal()
			return data[:len(data)/2]
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, "access.log")
			heard := b.listen()
			b.log("access.log", 100)
			b.start()
			b.await()
			early := b.journal()
			b.log("access.log", 100)
			b.await()
			for range 5 {
				b.log("access.log", 10)
				b.await()
			}
			b.stop()
			b.setJournal(test.back(b, early))
			b.log("access.log", 100)
			b.start()
			if !heard.has("went back") {
				t.Error("nothing is said of a journal that went back")
			}
			b.awaitRead("access.log")
			b.stop()
			got, conflicts := b.sink.counted(t)
			if conflicts == 0 {
				t.Error("nobody is told of a conflict")
			}
			for key, n := range got {
				if n > b.want[key] {
					t.Errorf("%s is counted %d times, and came %d times", key, n, b.want[key])
				}
			}
			b.start()
			before, _ := b.sink.counted(t)
			b.want = before
			b.log("access.log", 10)
			b.sink.awaitKeys(t, b.want)
		})
	}
}

func TestAJournalThatIsGoneIsANewCollector(t *testing.T) {
	b := newBench(t, "access.log")
	heard := b.listen()
	b.log("access.log", 10)
	b.start()
	b.await()
	was := b.collector.Status().Collector
	b.stop()
	if err := os.Remove(b.config.Folder + "/journal"); err != nil {
		t.Fatal(err)
	}
	b.start()
	if b.collector.Status().Collector == was || !heard.has("journal is gone") {
		t.Error("a collector whose journal is gone goes on as if nothing had happened")
	}
	for key := range b.want {
		b.want[key] *= 2
	}
	b.await()
}

func TestAFullDiskHoldsFilesUpAndLosesNothing(t *testing.T) {
	b := newBench(t, "access.log")
	heard := b.listen()
	var full sync.Map
	b.config.disk = disk{
		write: func(file *os.File, data []byte) error {
			if _, is := full.Load("full"); is {
				file.Write(data[:len(data)/2]) // as far as it goes
				return &os.PathError{Op: "write", Path: file.Name(), Err: syscall.ENOSPC}
			}
			return realDisk.write(file, data)
		},
		sync: realDisk.sync,
	}
	b.log("access.log", 10)
	b.start()
	b.await()
	full.Store("full", true)
	b.log("access.log", 100)
	for b.collector.Status().Error == "" {
		time.Sleep(time.Millisecond)
	}
	if !heard.has("no space left on device") {
		t.Error("the true cause is not said")
	}
	if got, _ := b.sink.counted(t); reflect.DeepEqual(got, b.want) {
		t.Error("it was sent before it was noted")
	}
	full.Delete("full")
	b.await()
	if fault := b.collector.Status().Error; fault != "" {
		t.Errorf("the status still says %s", fault)
	}
	b.stop()
	b.log("access.log", 10)
	b.start()
	b.await()
}

func TestACutThatIsTooOldIsNotSentAgain(t *testing.T) {
	b := newBench(t, "access.log")
	heard := b.listen()
	b.config.Retention = time.Hour
	old := &cut{source: "access.log/x", from: 0, to: 10, clock: time.Now().Add(-2 * time.Hour).UnixMilli(), batches: []batch{{1, 1, []byte("a batch")}}}
	b.setJournal(entry{kind: entryCut, cut: old}.append(header{"id", 1}.bytes()))
	b.start()
	b.stop()
	if !heard.has("too old to be sent again") {
		t.Error("nothing is said of it")
	}
}

// TestNothingIsSentBeforeTheDiskHasIt delays the disk.
func TestNothingIsSentBeforeTheDiskHasIt(t *testing.T) {
	b := newBench(t, "access.log")
	var slow sync.Map
	syncing, release := make(chan bool, 100), make(chan bool)
	b.config.disk = disk{write: realDisk.write, sync: func(file *os.File) error {
		if _, is := slow.Load("slow"); is {
			syncing <- true
			<-release
		}
		return realDisk.sync(file)
	}}
	b.log("access.log", 10)
	b.start()
	b.await()
	before, _ := b.sink.counted(t)
	slow.Store("slow", true)
	b.log("access.log", 10)
	<-syncing
	time.Sleep(20 * time.Millisecond)
	if got, _ := b.sink.counted(t); !reflect.DeepEqual(got, before) {
		t.Error("it is sent while the disk does not have it")
	}
	slow.Delete("slow")
	close(release)
	b.await()
}
