package collector

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/pkg/collector/pace"
	"weir/pkg/collector/pipeline"
	"weir/pkg/collector/tape"
	"weir/test/sink"
	"weir/test/wait"
)

// Logs with long lines that are ahead of the others wait for the slowest one. It has long lines too, and must get a
// place for them in memory although the others are in the midst of theirs: otherwise all stand still, until they no
// longer wait for the slowest, and its hits come too late.
func TestTheSlowestLogHasAPlaceForItsLongLines(t *testing.T) {
	t.Parallel()
	for _, packed := range []string{"", ".gz"} {
		t.Run("packed"+packed, func(t *testing.T) {
			b := newBench(t, "*.log", "*.log.gz")
			heard := &said{}
			b.config.Logger = heard.logger()
			begin := time.Date(2026, 3, 3, 0, 0, 0, 0, time.UTC)
			const short, long = pipeline.InFlightCuts - 5, 10
			for i := range tape.LongLines {
				name := fmt.Sprintf("%d.log", i)
				b.Append(name, b.LinesApart(name, begin, short, long))
				if packed != "" {
					b.Compress(name, packed)
				}
			}
			gate := make(chan *pace.Member, 1)
			b.opened = func(c *Collector) { gate <- c.config.pace.Join("gate", c.config.Late) }
			b.start()

			// All of them are as far ahead as they may be.
			wait.Until(t, "the logs to wait", func() bool {
				waiting := 0
				for _, log := range b.collector.Status().Sources[0].Logs {
					if log.InFlight >= pipeline.InFlightCuts-1 {
						waiting++
					}
				}
				return waiting == tape.LongLines
			})
			b.Append("slow.part", b.LinesApart("slow", begin.Add(-24*time.Hour), short, long))
			b.Rename("slow.part", "slow.log")
			wait.Until(t, "the slowest log to be found", func() bool { return len(b.collector.Status().Sources[0].Logs) > tape.LongLines })
			(<-gate).Leave()
			b.await()

			book := sink.NewTextbook(t, b.sink)
			if hits := book.Count(); hits != (tape.LongLines+1)*(short+long) || book.TooLate > 0 {
				t.Errorf("%d hits, %d of them too late", hits, book.TooLate)
			}
			if heard.Has("made no progress") {
				t.Error("the logs stood still")
			}
		})
	}
}

// Lines in parts share a bounded memory. Logs whose lines find no room there neither wait nor lose lines: the line
// counts by its beginning.
func TestLinesInPartsShareMemory(t *testing.T) {
	b := newBench(t, "*.log")
	b.config.Metrics = prometheus.NewRegistry()
	b.config.Sources[0].Envelope = "cri"
	b.config.partsBytes = 2 << 20
	const logs = 20
	ends := make([]string, logs)
	for i := range logs {
		begins, end := b.LongLine(300 << 10)
		ends[i] = "2026-03-03T08:00:00Z stdout F " + end
		var text strings.Builder
		for part := range slices.Chunk([]byte(begins), 16<<10) {
			fmt.Fprintf(&text, "2026-03-03T08:00:00Z stdout P %s\n", part)
		}
		b.Append(fmt.Sprintf("%d.log", i), text.String())
	}
	b.start()
	wait.Until(t, "the parts to be read", func() bool { return b.collector.Status().Sources[0].Requests == 0 && b.readAll(logs) })
	for i, end := range ends {
		b.Append(fmt.Sprintf("%d.log", i), end)
	}
	b.await()
	for _, why := range []string{"long", "format", "envelope"} {
		if got := b.metric("uncounted_total", "source", "logs", "reason", why); got != 0 {
			t.Errorf("%v are %s", got, why)
		}
	}
}

// readAll reports whether so many logs are read up to their ends.
func (b *bench) readAll(logs int) bool {
	status := b.collector.Status().Sources[0]
	return len(status.Logs) == logs && !slices.ContainsFunc(status.Logs, func(log pipeline.LogStatus) bool { return log.Lag > 0 || log.Position == 0 })
}
