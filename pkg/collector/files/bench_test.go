package files

import (
	"context"
	"io"
	"log/slog"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/pkg/collector/journal"
	"weir/pkg/collector/pace"
	"weir/pkg/collector/pipeline"
	"weir/pkg/rule"
	"weir/test/locked"
	"weir/test/logs"
	"weir/test/metric"
	"weir/test/sink"
	"weir/test/wait"
)

// A bench is a source of files in a pipeline of its own. A test starts it, or makes a family and decides when that
// looks and reads.
type bench struct {
	*logs.Folder
	sink     *sink.Memory
	config   Config
	pipeline pipeline.Config
	registry *prometheus.Registry

	// While it is open:
	known  *Logs
	source *source
	close  func() // nil while it is closed
}

func newBench(t testing.TB, patterns ...string) *bench {
	b := &bench{Folder: logs.New(t), sink: sink.New(4), registry: prometheus.NewRegistry()}
	for _, pattern := range patterns {
		b.config.Patterns = append(b.config.Patterns, b.Path(pattern))
	}
	b.pipeline = pipeline.Config{
		Folder: t.TempDir(), Late: 10 * time.Minute, Ahead: 10 * time.Second, Sink: b.sink, Partitions: 4, Now: time.Now,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Metrics: b.registry,
	}
	return b
}

// listen returns what is logged from now on.
func (b *bench) listen() *locked.Buffer {
	heard := &locked.Buffer{}
	b.pipeline.Logger = slog.New(slog.NewTextHandler(io.MultiWriter(heard, b.T.Output()), nil))
	return heard
}

// open makes the source.
func (b *bench) open() {
	b.T.Helper()
	set, err := rule.FromLimits([]string{"10/min"}, "ip")
	if err != nil {
		b.T.Fatal(err)
	}
	b.pipeline.Pace = pace.New(b.pipeline.Logger, time.Now)
	p := pipeline.New(b.pipeline)
	p.SetRules(set, nil)
	j, err := journal.Open(b.pipeline.Folder, journal.Options{Logger: b.pipeline.Logger, Outstanding: p.Outstanding()})
	if err != nil {
		b.T.Fatal(err)
	}
	b.known = NewLogs(p, j, pipeline.NewKeptCuts(p, j, b.pipeline.Logger))
	b.close = func() {
		if err := j.Close(); err != nil {
			b.T.Error(err)
		}
	}
	b.T.Cleanup(b.stop)

	in, err := p.NewIntake(pipeline.IntakeConfig{Name: "logs", Format: "combined"})
	if err != nil {
		b.T.Fatal(err)
	}
	made, err := New(in, b.known, b.config)
	if err != nil {
		b.T.Fatal(err)
	}
	b.source = made.(*source)
	if err := b.known.cuts.Resend(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
}

// start opens the source and runs it until stop.
func (b *bench) start() {
	b.T.Helper()
	b.open()
	ctx, cancel := context.WithCancel(context.Background())
	ended, close := make(chan error, 1), b.close
	b.source.Announce()
	go func(s *source) { ended <- s.Run(ctx) }(b.source)
	b.close = func() {
		cancel()
		if err := <-ended; err != nil {
			b.T.Error(err)
		}
		close()
	}
}

func (b *bench) stop() {
	if b.close != nil {
		b.close()
		b.close = nil
	}
}

// family opens the source and makes its one family; the test decides when it looks and reads.
func (b *bench) family(name string) *family {
	b.T.Helper()
	b.open()
	f := b.source.newFamily(b.Path(name), beginning{notBefore: pace.NoTime})
	f.member = b.pipeline.Pace.Join(name, time.Hour)
	close := b.close
	b.close = func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		f.drain(ctx)
		f.closeAll()
		close()
	}
	return f
}

// settle lets a family look and read until there is nothing new.
func (f *family) settle(t testing.TB) {
	t.Helper()
	for range 3 {
		f.scan()
		if err := f.read(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, log := range f.logs {
			if err := log.stream.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func (b *bench) await() {
	b.T.Helper()
	b.sink.Await(b.T, b.Want)
}

func (b *bench) status() pipeline.SourceStatus { return b.source.Status() }

// awaitReading waits until a file is read.
func (b *bench) awaitReading(name string) {
	b.T.Helper()
	wait.Until(b.T, name+" to be read", func() bool {
		return slices.ContainsFunc(b.status().Logs, func(log pipeline.LogStatus) bool { return log.Log == b.Path(name) })
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
		return slices.ContainsFunc(b.status().Logs, func(log pipeline.LogStatus) bool {
			return log.Log == b.Path(name) && log.Position == info.Size() && log.InFlight == 0
		})
	})
}

// unread is the number of lines that were not read for a reason.
func (b *bench) unread(why string) float64 {
	n, _ := metric.Value(b.T, b.registry, "weir_collector_uncounted_total", "source", "logs", "reason", why)
	return n
}
