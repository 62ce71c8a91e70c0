package collector

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/client_golang/prometheus"

	"weir/pkg/collector/pipeline"
	"weir/pkg/rule"
	"weir/test/metric"
	"weir/test/sink"
	"weir/test/wait"
)

// A bench is a collector of files under test, which can be stopped, killed and started again.
type bench struct {
	t         testing.TB
	folder    string // of the logs
	sink      *sink.Memory
	config    Config
	collector *Collector
	cancel    context.CancelFunc
	ended     chan error
	want      map[string]int64
	lines     int
	opened    func(*Collector) // called before one runs
}

func newBench(t testing.TB, patterns ...string) *bench {
	b := &bench{t: t, folder: t.TempDir(), sink: sink.New(4), want: map[string]int64{}}
	set, err := rule.FromLimits([]string{"10/min"}, "ip")
	if err != nil {
		t.Fatal(err)
	}
	for i := range patterns {
		patterns[i] = filepath.Join(b.folder, patterns[i])
	}
	b.config = Config{
		Folder: t.TempDir(), Rules: set, Late: 10 * time.Minute, Ahead: 10 * time.Second, Sink: b.sink, Partitions: 4,
		Logger: testLogger(t), Metrics: prometheus.NewRegistry(),
		Sources: []SourceConfig{{IntakeConfig: pipeline.IntakeConfig{Name: "logs", Format: "combined"}, File: &FileConfig{Patterns: patterns}}},
	}
	return b
}

func (b *bench) start() {
	b.t.Helper()
	var err error
	if b.collector, err = Open(b.config); err != nil {
		b.t.Fatal(err)
	}
	if b.opened != nil {
		b.opened(b.collector)
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel, b.ended = cancel, make(chan error, 1)
	go func(c *Collector) { b.ended <- c.Run(ctx) }(b.collector)
	b.t.Cleanup(b.stop)
}

func (b *bench) stop() {
	if b.collector == nil {
		return
	}
	b.cancel()
	if err := <-b.ended; err != nil {
		b.t.Error(err)
	}
	if err := b.collector.Close(); err != nil {
		b.t.Error(err)
	}
	b.collector = nil
}

// metric is the value of a metric; the configuration has a registry.
func (b *bench) metric(name string, labels ...string) float64 {
	b.t.Helper()
	value, _ := metric.Value(b.t, b.config.Metrics.(*prometheus.Registry), "weir_collector_"+name, labels...)
	return value
}

func (b *bench) path(name string) string { return filepath.Join(b.folder, name) }

// line returns one more line of a log, whose hit is wanted.
func (b *bench) line() string {
	b.lines++
	ip := fmt.Sprintf("203.0.113.%d", b.lines%7)
	b.want["per-ip "+ip]++
	return fmt.Sprintf("%s - - [03/Mar/2026:08:%02d:%02d +0000] \"GET /%d HTTP/1.1\" 200 2 \"-\" \"test\"\n", ip, b.lines/60%60, b.lines%60, b.lines)
}

// log appends lines to a file.
func (b *bench) log(name string, lines int) {
	b.t.Helper()
	text := ""
	for range lines {
		text += b.line()
	}
	b.append(name, text)
}

func (b *bench) append(name, text string) {
	b.t.Helper()
	f, err := os.OpenFile(b.path(name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		b.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) rename(from, to string) {
	b.t.Helper()
	if err := os.Rename(b.path(from), b.path(to)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) remove(name string) {
	b.t.Helper()
	if err := os.Remove(b.path(name)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) copyTruncate(from, to string) {
	b.t.Helper()
	data, err := os.ReadFile(b.path(from))
	if err != nil {
		b.t.Fatal(err)
	}
	half := len(data) / 2
	b.append(to, string(data[:half]))
	time.Sleep(5 * time.Millisecond) // a copy takes its time
	b.append(to, string(data[half:]))
	if err := os.Truncate(b.path(from), 0); err != nil {
		b.t.Fatal(err)
	}
}

// compress does the same as gzip and zstd: it writes the packed file next to the original, then removes the original.
func (b *bench) compress(name, extension string) {
	b.t.Helper()
	in, err := os.Open(b.path(name))
	if err != nil {
		b.t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(b.path(name + extension))
	if err != nil {
		b.t.Fatal(err)
	}
	defer out.Close()
	var w io.WriteCloser = gzip.NewWriter(out)
	if extension == ".zst" {
		w, _ = zstd.NewWriter(out)
	}
	if _, err := io.Copy(w, in); err != nil {
		b.t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		b.t.Fatal(err)
	}
	info, _ := in.Stat()
	os.Chtimes(b.path(name+extension), info.ModTime(), info.ModTime())
	b.remove(name)
}

func (b *bench) await() {
	b.t.Helper()
	b.sink.Await(b.t, b.want)
}

func TestFilesAreReadOnce(t *testing.T) {
	for _, test := range []struct {
		name string
		run  func(b *bench)
	}{
		{"what was there, and what comes", func(b *bench) {
			b.log("access.log", 100)
			b.start()
			b.await()
			b.log("access.log", 100)
			b.await()
		}},
		{"a file that comes later", func(b *bench) {
			b.start()
			b.log("access.log", 3)
			b.await()
		}},
		{"a line that is written in parts", func(b *bench) {
			b.start()
			line := b.line()
			b.append("access.log", line[:20])
			b.log("other.access.log", 1)
			b.append("access.log", line[20:])
			b.await()
		}},
		{"rotation by renaming", func(b *bench) {
			b.start()
			b.log("access.log", 50)
			b.rename("access.log", "access.log.1")
			b.log("access.log.1", 10) // the server has not noticed yet
			b.log("access.log", 50)
			b.await()
			b.log("access.log.1", 10)
			b.log("access.log", 1)
			b.await()
		}},
		{"rotation by copying and truncating", func(b *bench) {
			b.log("access.log", 500)
			b.start()
			b.await()
			b.copyTruncate("access.log", "access.log.1")
			b.log("access.log", 20)
			b.await()
			b.log("access.log", 20)
			b.await()
		}},
		{"copying and truncating what was not read", func(b *bench) {
			b.start()
			b.log("access.log", 5000)
			b.copyTruncate("access.log", "access.log.1")
			b.log("access.log", 2000)
			b.await()
		}},
		{"a rotated file is compressed", func(b *bench) {
			b.start()
			b.log("access.log", 50)
			b.await()
			b.rename("access.log", "access.log.1")
			b.log("access.log", 50)
			b.compress("access.log.1", ".gz")
			b.log("access.log", 50)
			b.await()
		}},
		{"deletion while reading", func(b *bench) {
			b.log("access.log", 100)
			b.start()
			b.await()
			b.log("access.log", 20000)
			b.remove("access.log")
			b.await()
			b.log("access.log", 10)
			b.await()
		}},
		{"a backlog of rotations, the oldest first", func(b *bench) {
			for _, name := range []string{"access.log.3", "access.log.2", "access.log.1", "access.log"} {
				b.log(name, 300)
			}
			b.compress("access.log.3", ".gz")
			b.compress("access.log.2", ".zst")
			b.start()
			b.await()
			b.log("access.log", 10)
			b.await()
		}},
		{"while it is down: rotated, compressed, moved on", func(b *bench) {
			b.log("access.log", 100)
			b.start()
			b.await()
			b.stop()
			b.log("access.log", 100)
			b.rename("access.log", "access.log-20260303")
			b.compress("access.log-20260303", ".gz")
			b.log("access.log", 100)
			b.rename("access.log", "access.log-20260304")
			b.log("access.log", 100)
			b.start()
			b.await()
		}},
		{"while it is down: copied and truncated", func(b *bench) {
			b.log("access.log", 100)
			b.start()
			b.await()
			b.stop()
			b.log("access.log", 100)
			b.copyTruncate("access.log", "access.log.1")
			b.log("access.log", 30)
			b.start()
			b.await()
		}},
		{"files that begin alike", func(b *bench) {
			line := b.line()
			for range 3 {
				b.append("access.log", line)
				b.append("other.access.log", line)
				b.want["per-ip 203.0.113.1"] += 2
			}
			b.want["per-ip 203.0.113.1"]--
			b.start()
			b.await()
			b.rename("access.log", "access.log.1")
			b.append("access.log", line)
			b.want["per-ip 203.0.113.1"]++
			b.await()
			b.stop()
			b.rename("other.access.log", "other.access.log.1")
			b.append("other.access.log", line+line)
			b.want["per-ip 203.0.113.1"] += 2
			b.start()
			b.await()
		}},
		{"moved to another folder", func(b *bench) {
			b.log("access.log", 3)
			b.start()
			b.await()
			b.stop()
			b.rename("access.log", "moved.access.log")
			b.log("moved.access.log", 3)
			b.start()
			b.await()
		}},
		{"started again and again", func(b *bench) {
			for range 5 {
				b.log("access.log", 37)
				b.start()
				b.await()
				b.stop()
			}
		}},
		{"a last line without an end, once the file is rotated away", func(b *bench) {
			b.start()
			b.log("access.log", 5)
			line := b.line()
			b.append("access.log", line[:len(line)-1])
			b.rename("access.log", "access.log.1")
			b.log("access.log", 5)
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
			b.log("access.log", 1)
			b.await()
			b.stop()
		})
	}
}

func TestALineThatIsTooLongIsCountedAsSuch(t *testing.T) {
	b := newBench(t, "access.log")
	b.log("access.log", 3)
	long := make([]byte, 3<<20)
	for i := range long {
		long[i] = 'x'
	}
	b.append("access.log", string(long)+"\n")
	b.log("access.log", 3)
	b.start()
	b.await()
}

func TestWhereReadingBegins(t *testing.T) {
	b := newBench(t, "*access.log")
	b.append("access.log", b.line())
	b.append("access.log.1", b.line())
	b.compress("access.log.1", ".gz")
	b.append("access.log", "half of a li")
	clear(b.want)
	b.config.Sources[0].File.Start = pipeline.Start{Latest: true}
	b.start()
	b.awaitReading("access.log")
	b.log("new.access.log", 10) // it comes while we run
	b.await()
	b.append("access.log", "ne\n")
	b.log("access.log", 10)
	b.await()
	b.stop()
	b.log("old.access.log", 5) // it came while we did not run
	b.start()
	b.await()
}

// awaitReading waits until a file is open.
func (b *bench) awaitReading(name string) {
	b.t.Helper()
	wait.Until(b.t, name+" to be read", func() bool {
		return slices.ContainsFunc(b.collector.Status().Sources[0].Logs, func(log pipeline.LogStatus) bool { return log.Log == b.path(name) })
	})
}

// awaitRead waits until a file is read and Kafka has all of it.
func (b *bench) awaitRead(name string) {
	b.t.Helper()
	info, err := os.Stat(b.path(name))
	if err != nil {
		b.t.Fatal(err)
	}
	wait.Until(b.t, name+" to be read and sent", func() bool {
		return slices.ContainsFunc(b.collector.Status().Sources[0].Logs, func(log pipeline.LogStatus) bool {
			return log.Log == b.path(name) && log.Position == info.Size() && log.InFlight == 0
		})
	})
}

func TestRequestsBeforeTheBeginningAreNotWanted(t *testing.T) {
	b := newBench(t, "access.log")
	b.log("access.log", 10) // of long ago
	clear(b.want)
	b.config.Sources[0].File.Start = pipeline.Start{Before: time.Hour}
	b.start()
	b.append("access.log", fmt.Sprintf("192.0.2.1 - - [%s] \"GET / HTTP/1.1\" 200 2 \"-\" \"-\"\n", time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700")))
	b.want["per-ip 192.0.2.1"]++
	b.await()
}

// TestTheLagGrowsWhileNothingCanBeSent: the status says how much waits to be read, not how much did when Kafka went.
func TestTheLagGrowsWhileNothingCanBeSent(t *testing.T) {
	b := newBench(t, "access.log")
	b.log("access.log", 1)
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
		b.log("access.log", 1)
		time.Sleep(time.Millisecond)
	}
	before := lag()
	b.log("access.log", 1000)
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

func TestTheFormatIsFoundOut(t *testing.T) {
	b := newBench(t, "access.log")
	b.config.Sources[0].Format, b.config.Sources[0].Envelope = "auto", "auto"
	b.log("access.log", 10)
	b.start()
	b.await()
	if got := b.collector.Status().Sources[0].Format; got == "" {
		t.Error("the status does not say the format")
	}
}

func TestTwoCollectorsOfTheSamePathCountBoth(t *testing.T) {
	one, other := newBench(t, "access.log"), newBench(t, "access.log")
	other.sink, other.config.Sink, other.config.Folder = one.sink, one.sink, t.TempDir()
	other.config.Sources = one.config.Sources
	one.log("access.log", 10)
	for key := range one.want {
		one.want[key] *= 2
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
