package backtest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const benchRules = `
rules:
  - name: per-ip
    key: ip
    limits: [10/min, 100/hour, 1000/day]
`

// BenchmarkBacktest reads a million lines of the combined format from a file, under three limits by address:
//
//	go test -run '^$' -bench Backtest -benchtime 5x ./pkg/backtest
//
// cpu-s/million counts the time of all processors, the kernel's too.
func BenchmarkBacktest(b *testing.B) {
	for name, text := range map[string]string{
		"clients=3000":    generated(9, 1_000_000),
		"clients=1000000": generatedOf(9, 1_000_000, 1_000_000, 1),
	} {
		b.Run(name, func(b *testing.B) { benchmarkLog(b, text) })
	}
}

func benchmarkLog(b *testing.B, text string) {
	path := filepath.Join(b.TempDir(), "access.log")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	rules := parseRules(b, benchRules)
	var requests int64
	before := processorTime(b)
	for b.Loop() {
		requests += runConfig(b, Config{Rules: rules, Inputs: []Input{{Path: path}}}).Requests
	}
	used := processorTime(b) - before
	b.ReportMetric(float64(requests)/b.Elapsed().Seconds(), "lines/s")
	b.ReportMetric(used.Seconds()/float64(requests)*1e6, "cpu-s/million")
}

// processorTime is the processor time that the process has used so far.
func processorTime(b *testing.B) time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(fmt.Errorf("times of the process: %w", err))
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
