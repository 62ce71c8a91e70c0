package journald_test

import (
	"io"
	"os/exec"
	"testing"

	"weir/pkg/collector/journald"
	"weir/pkg/collector/ordered"
	"weir/test/journals"
	"weir/test/streams"
)

const benchEntries = 400_000

// BenchmarkJournal measures a collector that reads a journal and counts its lines, and a bare journalctl whose output of
// the same fields is dropped.
func BenchmarkJournal(b *testing.B) {
	folder := b.TempDir()
	w := journals.Start(b, folder, "system")
	for n := 0; n < benchEntries; {
		lines := make([]string, 1000)
		for i := range lines {
			lines[i] = streams.Line(n)
			n++
		}
		w.Add(lines)
	}
	w.Stop()
	b.Run("weir", func(b *testing.B) {
		for b.Loop() {
			c := streams.New(b, "journald", func() ([]ordered.Log, error) { return journald.Open(journald.Options{Folder: folder}) })
			c.Reads(benchEntries)
			c.Stop()
		}
		b.ReportMetric(float64(b.N)*benchEntries/b.Elapsed().Seconds(), "lines/s")
	})
	b.Run("bare-journalctl", func(b *testing.B) {
		for b.Loop() {
			command := exec.Command("journalctl", "--directory="+folder, "--output=export", "--output-fields=MESSAGE")
			command.Stdout = io.Discard
			if err := command.Run(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N)*benchEntries/b.Elapsed().Seconds(), "lines/s")
	})
}
