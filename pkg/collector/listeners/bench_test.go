package listeners

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/pkg/collector/pace"
	"weir/pkg/collector/pipeline"
	"weir/pkg/rule"
	"weir/test/locked"
	"weir/test/logs"
	"weir/test/metric"
	"weir/test/sink"
	"weir/test/wait"
)

// A config describes sources that run together.
type config struct {
	pipeline.Config
	Sources []sourceConfig
}

// A sourceConfig describes a source, of one kind.
type sourceConfig struct {
	pipeline.IntakeConfig
	HTTP   *HTTPConfig
	Syslog *SyslogConfig
}

// An opened has the sources of a config.
type opened struct{ sources []pipeline.Source }

func open(c config) (*opened, error) {
	set, err := rule.FromLimits([]string{"10/min"}, "ip")
	if err != nil {
		return nil, err
	}
	p := pipeline.New(c.Config)
	p.SetRules(set, nil)
	o := &opened{}
	for _, one := range c.Sources {
		in, err := p.NewIntake(one.IntakeConfig)
		if err != nil {
			return nil, err
		}
		var s pipeline.Source
		if one.HTTP != nil {
			s, err = NewHTTP(in, *one.HTTP)
		} else {
			s, err = NewSyslog(in, *one.Syslog)
		}
		if err != nil {
			return nil, err
		}
		o.sources = append(o.sources, s)
	}
	return o, nil
}

// run runs the source until the context is done.
func (o *opened) run(ctx context.Context) error {
	o.sources[0].Announce()
	return o.sources[0].Run(ctx)
}

// A bench is a source under test, and the requests that it should count.
type bench struct {
	*logs.Folder
	sink   *sink.Memory
	config config
	opened *opened
	cancel context.CancelFunc
	ended  chan error
}

func newBench(t testing.TB) *bench {
	b := &bench{Folder: logs.New(t), sink: sink.New(4)}
	logger := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	b.config.Config = pipeline.Config{
		Folder: t.TempDir(), Late: 10 * time.Minute, Ahead: 10 * time.Second, Sink: b.sink, Partitions: 4,
		Pace: pace.New(logger, time.Now), Now: time.Now, Logger: logger, Metrics: prometheus.NewRegistry(),
	}
	return b
}

// run runs the opened source.
func (b *bench) run() {
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel, b.ended = cancel, make(chan error, 1)
	go func(o *opened) { b.ended <- o.run(ctx) }(b.opened)
	b.T.Cleanup(b.stop)
}

func (b *bench) stop() {
	if b.opened == nil {
		return
	}
	b.cancel()
	if err := <-b.ended; err != nil {
		b.T.Error(err)
	}
	b.opened = nil
}

// address is the address of the source.
func (b *bench) address() string {
	b.T.Helper()
	var logs []pipeline.LogStatus
	wait.Until(b.T, "the listener", func() bool { logs = b.opened.sources[0].Status().Logs; return len(logs) > 0 })
	return logs[0].Log
}

// listen returns what is logged from now on.
func (b *bench) listen() *locked.Buffer {
	heard := &locked.Buffer{}
	b.config.Logger = slog.New(slog.NewTextHandler(io.MultiWriter(heard, b.T.Output()), nil))
	return heard
}

// metric is the value of a metric.
func (b *bench) metric(name string, labels ...string) float64 {
	b.T.Helper()
	value, _ := metric.Value(b.T, b.config.Metrics.(*prometheus.Registry), "weir_collector_"+name, labels...)
	return value
}
