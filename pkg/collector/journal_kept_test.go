package collector

import (
	"io"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/pkg/collector/journal"
	"weir/test/locked"
)

func (b *bench) listen() *locked.Buffer {
	s := &locked.Buffer{}
	b.config.Logger = slog.New(slog.NewTextHandler(io.MultiWriter(s, b.T.Output()), nil))
	return s
}

func (b *bench) journal() []byte {
	b.T.Helper()
	data, err := os.ReadFile(b.config.Folder + "/journal")
	if err != nil {
		b.T.Fatal(err)
	}
	return data
}

func (b *bench) setJournal(data []byte) {
	b.T.Helper()
	if err := os.WriteFile(b.config.Folder+"/journal", data, 0o600); err != nil {
		b.T.Fatal(err)
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
			b.Log("access.log", 100)
			b.start()
			b.await()
			early := b.journal()
			b.Log("access.log", 100)
			b.await()
			for range 5 {
				b.Log("access.log", 10)
				b.await()
			}
			b.stop()
			b.setJournal(test.back(b, early))
			b.Log("access.log", 100)
			b.start()
			if !heard.Has("went back") {
				t.Error("nothing is said of a journal that went back")
			}
			b.awaitRead("access.log")
			b.stop()
			got, conflicts := b.sink.Counted(t)
			if conflicts == 0 {
				t.Error("nobody is told of a conflict")
			}
			for key, n := range got {
				if n > b.Want[key] {
					t.Errorf("%s is counted %d times, and came %d times", key, n, b.Want[key])
				}
			}
			b.start()
			before, _ := b.sink.Counted(t)
			b.Want = before
			b.Log("access.log", 10)
			b.sink.AwaitKeys(t, b.Want)
		})
	}
}

func TestAJournalThatIsGoneIsANewCollector(t *testing.T) {
	b := newBench(t, "access.log")
	heard := b.listen()
	b.Log("access.log", 10)
	b.start()
	b.await()
	was := b.collector.Status().Collector
	b.stop()
	if err := os.Remove(b.config.Folder + "/journal"); err != nil {
		t.Fatal(err)
	}
	b.start()
	if b.collector.Status().Collector == was || !heard.Has("journal is gone") {
		t.Error("a collector whose journal is gone goes on as if nothing had happened")
	}
	for key := range b.Want {
		b.Want[key] *= 2
	}
	b.await()
}

// A journal that is deleted or replaced alone, while its folder stays, is written again with what comes next.
func TestAJournalThatIsGoneMeanwhileIsWrittenAgain(t *testing.T) {
	for name, replaced := range map[string]bool{"deleted": false, "replaced": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "access.log")
			heard := b.listen()
			b.Log("access.log", 10)
			b.start()
			b.await()
			if err := os.Remove(b.config.Folder + "/journal"); err != nil {
				t.Fatal(err)
			}
			if replaced {
				b.setJournal(nil)
			}
			b.Log("access.log", 10)
			b.await()
			b.stop()
			b.Log("access.log", 10)
			b.start()
			b.await()
			if !heard.Has("was deleted or replaced") {
				t.Error("nothing is logged of a journal that is gone")
			}
		})
	}
}

func TestAFullDiskHoldsFilesUpAndLosesNothing(t *testing.T) {
	b := newBench(t, "access.log")
	heard := b.listen()
	var full sync.Map
	b.config.disk = journal.Disk{
		Write: func(file *os.File, data []byte) error {
			if _, is := full.Load("full"); is {
				file.Write(data[:len(data)/2]) // as far as it goes
				return &os.PathError{Op: "write", Path: file.Name(), Err: syscall.ENOSPC}
			}
			return journal.RealDisk.Write(file, data)
		},
		Sync: journal.RealDisk.Sync,
	}
	b.Log("access.log", 10)
	b.start()
	b.await()
	full.Store("full", true)
	b.Log("access.log", 100)
	for b.collector.Status().Error == "" {
		time.Sleep(time.Millisecond)
	}
	if !heard.Has("no space left on device") {
		t.Error("the true cause is not said")
	}
	if got, _ := b.sink.Counted(t); reflect.DeepEqual(got, b.Want) {
		t.Error("it was sent before it was noted")
	}
	full.Delete("full")
	b.await()
	if fault := b.collector.Status().Error; fault != "" {
		t.Errorf("the status still says %s", fault)
	}
	b.stop()
	b.Log("access.log", 10)
	b.start()
	b.await()
}

// A collector that starts on a full disk waits for room, as one whose disk becomes full does. It may be stopped meanwhile.
func TestAStartOnAFullDiskWaits(t *testing.T) {
	for name, before := range map[string]bool{"first start": false, "later start": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "access.log")
			b.Log("access.log", 10)
			if before {
				b.start()
				b.await()
				b.stop()
			}

			var free atomic.Bool
			b.config.disk = journal.Disk{
				Write: func(file *os.File, data []byte) error {
					if !free.Load() {
						return &os.PathError{Op: "write", Path: file.Name(), Err: syscall.ENOSPC}
					}
					return journal.RealDisk.Write(file, data)
				},
				Sync: journal.RealDisk.Sync,
			}
			b.start()
			b.stop()
			b.Log("access.log", 100)
			b.start()
			for !strings.Contains(b.collector.Status().Error, "no space left on device") {
				time.Sleep(time.Millisecond)
			}

			free.Store(true)
			b.await()
			if fault := b.collector.Status().Error; fault != "" {
				t.Errorf("the status still says %s", fault)
			}
		})
	}
}

func TestACutThatIsTooOldIsNotSentAgain(t *testing.T) {
	b := newBench(t, "access.log")
	heard := b.listen()
	b.config.Retention = time.Hour
	old := &journal.Cut{Source: "access.log/x", From: 0, To: 10, Clock: time.Now().Add(-2 * time.Hour).UnixMilli(), Batches: []journal.Batch{{Partition: 1, Hits: 1, Value: []byte("a batch")}}}
	j, err := journal.Open(b.config.Folder, journal.Options{Logger: b.config.Logger, Outstanding: prometheus.NewGauge(prometheus.GaugeOpts{Name: "outstanding"})})
	if err != nil {
		t.Fatal(err)
	}
	j.Note(old, func() {})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	b.start()
	b.stop()
	if !heard.Has("too old to be sent again") {
		t.Error("nothing is said of it")
	}
}

// TestNothingIsSentBeforeTheDiskHasIt delays the disk.
func TestNothingIsSentBeforeTheDiskHasIt(t *testing.T) {
	b := newBench(t, "access.log")
	var slow sync.Map
	syncing, release := make(chan bool, 100), make(chan bool)
	b.config.disk = journal.Disk{Write: journal.RealDisk.Write, Sync: func(file *os.File) error {
		if _, is := slow.Load("slow"); is {
			syncing <- true
			<-release
		}
		return journal.RealDisk.Sync(file)
	}}
	b.Log("access.log", 10)
	b.start()
	b.await()
	before, _ := b.sink.Counted(t)
	slow.Store("slow", true)
	b.Log("access.log", 10)
	<-syncing
	time.Sleep(20 * time.Millisecond)
	if got, _ := b.sink.Counted(t); !reflect.DeepEqual(got, before) {
		t.Error("it is sent while the disk does not have it")
	}
	slow.Delete("slow")
	close(release)
	b.await()
}
