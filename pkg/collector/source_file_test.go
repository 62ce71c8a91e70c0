package collector

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/pkg/collector/files"
	"weir/pkg/collector/pipeline"
	"weir/pkg/rule"
	"weir/test/logs"
	"weir/test/metric"
	"weir/test/sink"
	"weir/test/wait"
)

// A bench is a collector of files under test, which can be stopped, killed and started again.
type bench struct {
	*logs.Folder
	sink      *sink.Memory
	config    Config
	collector *Collector
	cancel    context.CancelFunc
	ended     chan error
	opened    func(*Collector) // called before one runs
}

func newBench(t testing.TB, patterns ...string) *bench {
	b := &bench{Folder: logs.New(t), sink: sink.New(4)}
	set, err := rule.FromLimits([]string{"10/min"}, "ip")
	if err != nil {
		t.Fatal(err)
	}
	for i := range patterns {
		patterns[i] = filepath.Join(b.Dir, patterns[i])
	}
	b.config = Config{
		Folder: t.TempDir(), Rules: set, Late: 10 * time.Minute, Ahead: 10 * time.Second, Sink: b.sink, Partitions: 4, Batch: 20 * time.Millisecond,
		Logger: testLogger(t), Metrics: prometheus.NewRegistry(),
		Sources: []SourceConfig{{IntakeConfig: pipeline.IntakeConfig{Name: "logs", Format: "combined"}, File: &files.Config{Patterns: patterns}}},
	}
	return b
}

func (b *bench) start() {
	b.T.Helper()
	var err error
	if b.collector, err = Open(b.config); err != nil {
		b.T.Fatal(err)
	}
	if b.opened != nil {
		b.opened(b.collector)
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel, b.ended = cancel, make(chan error, 1)
	go func(c *Collector) { b.ended <- c.Run(ctx) }(b.collector)
	b.T.Cleanup(b.stop)
}

func (b *bench) stop() {
	if b.collector == nil {
		return
	}
	b.cancel()
	if err := <-b.ended; err != nil {
		b.T.Error(err)
	}
	if err := b.collector.Close(); err != nil {
		b.T.Error(err)
	}
	b.collector = nil
}

// metric is the value of a metric; the configuration has a registry.
func (b *bench) metric(name string, labels ...string) float64 {
	b.T.Helper()
	value, _ := metric.Value(b.T, b.config.Metrics.(*prometheus.Registry), "weir_collector_"+name, labels...)
	return value
}

func (b *bench) await() {
	b.T.Helper()
	b.sink.Await(b.T, b.Want)
}

func TestFilesAreReadOnce(t *testing.T) {
	for _, test := range []struct {
		name string
		run  func(b *bench)
	}{
		{"what was there, and what comes", func(b *bench) {
			b.Log("access.log", 100)
			b.start()
			b.await()
			b.Log("access.log", 100)
			b.await()
		}},
		{"a file that comes later", func(b *bench) {
			b.start()
			b.Log("access.log", 3)
			b.await()
		}},
		{"a line that is written in parts", func(b *bench) {
			b.start()
			line := b.Line()
			b.Append("access.log", line[:20])
			b.Log("other.access.log", 1)
			b.Append("access.log", line[20:])
			b.await()
		}},
		{"rotation by renaming", func(b *bench) {
			b.start()
			b.Log("access.log", 50)
			b.Rename("access.log", "access.log.1")
			b.Log("access.log.1", 10) // the server has not noticed yet
			b.Log("access.log", 50)
			b.await()
			b.Log("access.log.1", 10)
			b.Log("access.log", 1)
			b.await()
		}},
		{"rotation by copying and truncating", func(b *bench) {
			b.Log("access.log", 500)
			b.start()
			b.await()
			b.CopyTruncate("access.log", "access.log.1")
			b.Log("access.log", 20)
			b.await()
			b.Log("access.log", 20)
			b.await()
		}},
		{"copying and truncating what was not read", func(b *bench) {
			b.start()
			b.Log("access.log", 5000)
			b.CopyTruncate("access.log", "access.log.1")
			b.Log("access.log", 2000)
			b.await()
		}},
		{"a rotated file is compressed", func(b *bench) {
			b.start()
			b.Log("access.log", 50)
			b.await()
			b.Rename("access.log", "access.log.1")
			b.Log("access.log", 50)
			b.Compress("access.log.1", ".gz")
			b.Log("access.log", 50)
			b.await()
		}},
		{"deletion while reading", func(b *bench) {
			b.Log("access.log", 100)
			b.start()
			b.await()
			b.Log("access.log", 20000)
			b.Remove("access.log")
			b.await()
			b.Log("access.log", 10)
			b.await()
		}},
		{"a backlog of rotations, the oldest first", func(b *bench) {
			for _, name := range []string{"access.log.3", "access.log.2", "access.log.1", "access.log"} {
				b.Log(name, 300)
			}
			b.Compress("access.log.3", ".gz")
			b.Compress("access.log.2", ".zst")
			b.start()
			b.await()
			b.Log("access.log", 10)
			b.await()
		}},
		{"while it is down: rotated, compressed, moved on", func(b *bench) {
			b.Log("access.log", 100)
			b.start()
			b.await()
			b.stop()
			b.Log("access.log", 100)
			b.Rename("access.log", "access.log-20260303")
			b.Compress("access.log-20260303", ".gz")
			b.Log("access.log", 100)
			b.Rename("access.log", "access.log-20260304")
			b.Log("access.log", 100)
			b.start()
			b.await()
		}},
		{"while it is down: copied and truncated", func(b *bench) {
			b.Log("access.log", 100)
			b.start()
			b.await()
			b.stop()
			b.Log("access.log", 100)
			b.CopyTruncate("access.log", "access.log.1")
			b.Log("access.log", 30)
			b.start()
			b.await()
		}},
		{"files that begin alike", func(b *bench) {
			line := b.Line()
			for range 3 {
				b.Append("access.log", line)
				b.Append("other.access.log", line)
				b.Want["per-ip 203.0.113.1"] += 2
			}
			b.Want["per-ip 203.0.113.1"]--
			b.start()
			b.await()
			b.Rename("access.log", "access.log.1")
			b.Append("access.log", line)
			b.Want["per-ip 203.0.113.1"]++
			b.await()
			b.stop()
			b.Rename("other.access.log", "other.access.log.1")
			b.Append("other.access.log", line+line)
			b.Want["per-ip 203.0.113.1"] += 2
			b.start()
			b.await()
		}},
		{"moved to another folder", func(b *bench) {
			b.Log("access.log", 3)
			b.start()
			b.await()
			b.stop()
			b.Rename("access.log", "moved.access.log")
			b.Log("moved.access.log", 3)
			b.start()
			b.await()
		}},
		{"started again and again", func(b *bench) {
			for range 5 {
				b.Log("access.log", 37)
				b.start()
				b.await()
				b.stop()
			}
		}},
		{"a last line without an end, once the file is rotated away", func(b *bench) {
			b.start()
			b.Log("access.log", 5)
			line := b.Line()
			b.Append("access.log", line[:len(line)-1])
			b.Rename("access.log", "access.log.1")
			b.Log("access.log", 5)
			b.await()
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "*access.log")
			test.run(b)
			b.await()
			b.stop()
			b.start() // nothing is read again
			b.Log("access.log", 1)
			b.await()
			b.stop()
		})
	}
}

func TestALineThatIsTooLongIsCountedAsSuch(t *testing.T) {
	b := newBench(t, "access.log")
	b.Log("access.log", 3)
	long := make([]byte, 3<<20)
	for i := range long {
		long[i] = 'x'
	}
	b.Append("access.log", string(long)+"\n")
	b.Log("access.log", 3)
	b.start()
	b.await()
}

func TestWhereReadingBegins(t *testing.T) {
	b := newBench(t, "*access.log")
	b.Append("access.log", b.Line())
	b.Append("access.log.1", b.Line())
	b.Compress("access.log.1", ".gz")
	b.Append("access.log", "half of a li")
	clear(b.Want)
	b.config.Sources[0].File.Start = pipeline.Start{Latest: true}
	b.start()
	b.awaitReading("access.log")
	b.Log("new.access.log", 10) // it comes while we run
	b.await()
	b.Append("access.log", "ne\n")
	b.Log("access.log", 10)
	b.await()
	b.stop()
	b.Log("old.access.log", 5) // it came while we did not run
	b.start()
	b.await()
}

// awaitReading waits until a file is open.
func (b *bench) awaitReading(name string) {
	b.T.Helper()
	wait.Until(b.T, name+" to be read", func() bool {
		return slices.ContainsFunc(b.collector.Status().Sources[0].Logs, func(log pipeline.LogStatus) bool { return log.Log == b.Path(name) })
	})
}

// awaitRead waits until a file is read and Kafka has all of it.
func (b *bench) awaitRead(name string) {
	b.T.Helper()
	info, err := os.Stat(b.Path(name))
	if err != nil {
		b.T.Fatal(err)
	}
	wait.Until(b.T, name+" to be read and sent", func() bool {
		return slices.ContainsFunc(b.collector.Status().Sources[0].Logs, func(log pipeline.LogStatus) bool {
			return log.Log == b.Path(name) && log.Position == info.Size() && log.InFlight == 0
		})
	})
}

func TestRequestsBeforeTheBeginningAreNotWanted(t *testing.T) {
	b := newBench(t, "access.log")
	b.Log("access.log", 10) // of long ago
	clear(b.Want)
	b.config.Sources[0].File.Start = pipeline.Start{Before: time.Hour}
	b.start()
	b.Append("access.log", fmt.Sprintf("192.0.2.1 - - [%s] \"GET / HTTP/1.1\" 200 2 \"-\" \"-\"\n", time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700")))
	b.Want["per-ip 192.0.2.1"]++
	b.await()
}

// TestTheLagGrowsWhileNothingCanBeSent: the status says how much waits to be read, not how much did when Kafka went.
func TestTheLagGrowsWhileNothingCanBeSent(t *testing.T) {
	t.Parallel()
	b := newBench(t, "access.log")
	b.Log("access.log", 1)
	b.sink.Mute = true
	b.start()
	lag := func() int64 {
		if logs := b.collector.Status().Sources[0].Logs; len(logs) == 1 {
			return logs[0].Lag
		}
		return 0
	}
	waits := func() bool { // the stream is full, and the collector is not only slow
		first := lag()
		if first == 0 {
			return false
		}
		time.Sleep(300 * time.Millisecond)
		return lag() >= first
	}
	for !waits() {
		b.Log("access.log", 1)
		time.Sleep(time.Millisecond)
	}
	before := lag()
	b.Log("access.log", 1000)
	for begun := time.Now(); lag() < before+50_000; time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatalf("of 1,000 more lines, %d bytes wait", lag()-before)
		}
	}
	b.sink.Unmute()
	b.await()
	for begun := time.Now(); lag() != 0; time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatalf("when all is read, %d bytes wait", lag())
		}
	}
}

// Lines that wait for the next beat are not read yet, and the status reports that. weir status --wait relies on it.
func TestTheStatusKnowsLinesThatWaitForTheBeat(t *testing.T) {
	t.Parallel()
	b := newBench(t, "access.log")
	b.config.Batch = time.Second
	b.start()
	for range 4 {
		b.Log("access.log", 1) // sent at once, because it comes alone
		b.await()
		time.Sleep(200 * time.Millisecond)
		b.Log("access.log", 1) // not looked at before the next beat
		info, err := os.Stat(b.Path("access.log"))
		if err != nil {
			t.Fatal(err)
		}
		status := b.collector.Status().Sources[0]
		if log := status.Logs[0]; status.CaughtUp && log.Position < info.Size() {
			t.Fatalf("caught up at %d of %d bytes", log.Position, info.Size())
		}
		b.await()
		time.Sleep(1200 * time.Millisecond)
	}
}

func TestTheFormatIsFoundOut(t *testing.T) {
	b := newBench(t, "access.log")
	b.config.Sources[0].Format, b.config.Sources[0].Envelope = "auto", "auto"
	b.Log("access.log", 10)
	b.start()
	b.await()
	if got := b.collector.Status().Sources[0].Format; got == "" {
		t.Error("the status does not say the format")
	}
}

// After a start, a client that is alone must not make the log unread with a user that fits no format, also in a new file.
func TestTheFormatIsFoundOutAgain(t *testing.T) {
	for _, rotated := range []bool{false, true} {
		b := newBench(t, "access.log")
		b.config.Sources[0].Format, b.config.Sources[0].Envelope = "auto", "auto"
		b.Log("access.log", 10)
		b.start()
		b.await()
		b.stop()
		if rotated {
			b.Rename("access.log", "access.log.1")
		}
		const lines = 20
		for range lines {
			b.Append("access.log", fmt.Sprintf("192.0.2.66 - - - [%s] \"GET / HTTP/1.1\" 200 2 \"-\" \"-\"\n", time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700")))
		}
		b.config.Metrics = prometheus.NewRegistry()
		b.start()
		wait.Until(t, "they are read", func() bool {
			status := b.collector.Status().Sources[0]
			return status.Requests+status.Uncounted["format"] >= lines
		})
		if status := b.collector.Status().Sources[0]; status.Uncounted["format"] != 0 {
			t.Errorf("rotated %v: %+v", rotated, status)
		}
		b.stop()
	}
}

func TestTwoCollectorsOfTheSamePathCountBoth(t *testing.T) {
	one, other := newBench(t, "access.log"), newBench(t, "access.log")
	other.sink, other.config.Sink, other.config.Folder = one.sink, one.sink, t.TempDir()
	other.config.Sources = one.config.Sources
	one.Log("access.log", 10)
	for key := range one.Want {
		one.Want[key] *= 2
	}
	one.start()
	other.start()
	one.await()
}

func TestAFolderInUseIsRefused(t *testing.T) {
	b := newBench(t, "access.log")
	b.start()
	if c, err := Open(b.config); err == nil {
		c.Close()
		t.Error("a folder was opened twice")
	}
}
