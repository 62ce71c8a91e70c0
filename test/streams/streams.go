// Package streams runs a collector over logs that servers keep, in the process of a test.
package streams

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/pkg/collector"
	"weir/pkg/collector/ordered"
	"weir/pkg/collector/pipeline"
	"weir/pkg/rule"
	"weir/test/locked"
	"weir/test/sink"
	"weir/test/wait"
)

// A Bench is a source, and what it should count. It belongs to the test's goroutine.
type Bench struct {
	T       testing.TB
	Sink    *sink.Memory
	Want    map[string]int64
	Source  collector.SourceConfig
	Said    locked.Buffer // the log
	Metrics *prometheus.Registry

	folder  string
	lines   int
	running *collector.Collector
	end     func()
}

// New makes a bench for logs of a kind that open opens.
func New(t testing.TB, kind string, open func() ([]ordered.Log, error)) *Bench {
	b := &Bench{T: t, Sink: sink.New(4), Want: map[string]int64{}, folder: t.TempDir()}
	b.Source = collector.SourceConfig{
		IntakeConfig: pipeline.IntakeConfig{Name: "logs", Envelope: "none", Format: "combined"},
		Ordered:      &ordered.Config{Kind: kind, Open: open},
	}
	t.Cleanup(b.Stop)
	return b
}

// Line makes a line of an access log.
func Line(n int) string {
	return fmt.Sprintf("203.0.113.%d - - [%s] \"GET /%d?n=%d HTTP/1.1\" 200 2 \"-\" \"test\"",
		n%50, time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700"), n%20, n)
}

// Lines makes lines that are to be counted.
func (b *Bench) Lines(n int) []string {
	lines := b.Unread(n)
	for _, line := range lines {
		address, _, _ := strings.Cut(line, " ")
		b.Want["per-ip "+address]++
	}
	return lines
}

// Unread makes lines that are not to be counted.
func (b *Bench) Unread(n int) (lines []string) {
	for range n {
		b.lines++
		lines = append(lines, Line(b.lines))
	}
	return lines
}

// Start runs the collector.
func (b *Bench) Start() {
	b.T.Helper()
	rules, err := rule.FromLimits([]string{"10/min"}, "ip")
	if err != nil {
		b.T.Fatal(err)
	}
	b.Metrics = prometheus.NewRegistry()
	b.running, err = collector.Open(collector.Config{
		Folder: b.folder, Rules: rules, Late: 10 * time.Minute, Ahead: time.Minute, Sink: b.Sink, Partitions: 4, Retention: 48 * time.Hour,
		Sources: []collector.SourceConfig{b.Source}, Logger: slog.New(slog.NewTextHandler(&b.Said, nil)), Metrics: b.Metrics,
	})
	if err != nil {
		b.T.Fatal(err)
	}

	running := b.running
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- running.Run(ctx) }()
	b.end = func() {
		cancel()
		if err := errors.Join(<-ended, running.Close()); err != nil {
			b.T.Error(err)
		}
	}
}

// Stop ends the collector, if it runs.
func (b *Bench) Stop() {
	if b.end != nil {
		b.end()
		b.end = nil
	}
}

// Restart stops the collector, changes something, and runs it again.
func (b *Bench) Restart(meanwhile func()) {
	b.T.Helper()
	b.Stop()
	meanwhile()
	b.Start()
}

// Await waits until all lines are counted, each once, and the status shows it.
func (b *Bench) Await() {
	b.T.Helper()
	b.Sink.Await(b.T, b.Want)
	b.Settle()
	b.Sink.Await(b.T, b.Want)
}

// Settle waits until the collector has caught up.
func (b *Bench) Settle() {
	b.T.Helper()
	wait.Until(b.T, "the collector to have caught up", b.CaughtUp)
}

// CaughtUp reports whether the collector has caught up.
func (b *Bench) CaughtUp() bool { return b.running.Status().CaughtUp }

// Status is that of the source.
func (b *Bench) Status() pipeline.SourceStatus { return b.running.Status().Sources[0] }

// Reads runs the collector until it has read up to a position and sent all of it.
func (b *Bench) Reads(position int64) {
	b.T.Helper()
	b.Start()
	for {
		if logs := b.Status().Logs; len(logs) == 1 && logs[0].Position >= position && logs[0].InFlight == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// JournalBytes is the size of the journal as it is rewritten when the collector starts.
func (b *Bench) JournalBytes() int64 {
	b.T.Helper()
	b.Restart(func() {})
	info, err := os.Stat(filepath.Join(b.folder, "journal"))
	if err != nil {
		b.T.Fatal(err)
	}
	return info.Size()
}

// Says waits until the log has a text.
func (b *Bench) Says(text string) {
	b.T.Helper()
	wait.Text(b.T, &b.Said, text)
}

// Trouble waits until the status has a text as its problem.
func (b *Bench) Trouble(text string) {
	b.T.Helper()
	wait.Until(b.T, "the status to have "+text, func() bool { return strings.Contains(b.Status().Error, text) })
}
