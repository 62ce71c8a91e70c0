package collector

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/topic"
	"weir/pkg/collector/journal"
	"weir/pkg/collector/pipeline"
)

// A lap is the times at which a lone line reached each stage.
type lap struct {
	begun, cut, journalled, sent, acknowledged time.Time
	value                                      []byte
	partition                                  int
}

// A stopwatch sees a line go through the journal and the sink.
type stopwatch struct {
	disk    journal.Disk
	sink    pipeline.Sink
	lap     lap
	written time.Time     // by the journal, which syncs only what a cut waits for
	over    chan struct{} // Kafka has it
}

func (w *stopwatch) write(file *os.File, b []byte) error {
	w.written = time.Now()
	return w.disk.Write(file, b)
}

func (w *stopwatch) sync(file *os.File) error {
	err := w.disk.Sync(file)
	w.lap.cut, w.lap.journalled = w.written, time.Now()
	return err
}

// Send implements Sink for cuts of one batch.
func (w *stopwatch) Send(ctx context.Context, messages ...topic.Message) error {
	w.lap.sent = time.Now()
	w.lap.value, w.lap.partition = messages[0].Value, messages[0].Partition
	told := messages[0].Done
	messages[0].Done = func(offset int64, err error) {
		w.lap.acknowledged = time.Now()
		w.over <- struct{}{}
		told(offset, err)
	}
	return w.sink.Send(ctx, messages...)
}

// BenchmarkLoneLine measures how long a line takes from the log until Kafka has acknowledged its hit, and where the
// time goes. In turn with it, it measures the limits of the machine: the same bytes written and synced alone, and the
// same batch produced alone. The topic is not new then: the figures are of a broker that has been at work.
func BenchmarkLoneLine(b *testing.B) {
	c := newBench(b, "access.log")
	c.config.Logger = nil
	c.toKafka()
	watch := &stopwatch{disk: journal.RealDisk, sink: c.config.Sink, over: make(chan struct{}, 1)}
	c.config.Sink, c.config.disk = watch, journal.Disk{Write: watch.write, Sync: watch.sync}
	c.Log("access.log", 1)
	c.start()
	<-watch.over
	bare := newBare(b, c.config.Folder)
	bare.warm(watch.sink)
	var laps []lap
	for b.Loop() {
		time.Sleep(3 * time.Millisecond)
		line := c.Line()
		watch.lap = lap{begun: time.Now()}
		c.Append("access.log", line)
		<-watch.over
		laps = append(laps, watch.lap)
		time.Sleep(3 * time.Millisecond)
		bare.sync(len(watch.lap.value) + 200)
		time.Sleep(3 * time.Millisecond)
		bare.produce(watch.sink, topic.Message{Partition: watch.lap.partition, Value: watch.lap.value})
	}
	between := func(from, to func(*lap) time.Time) (took []time.Duration) {
		for i := range laps {
			took = append(took, to(&laps[i]).Sub(from(&laps[i])))
		}
		return took
	}
	begun, cut := func(l *lap) time.Time { return l.begun }, func(l *lap) time.Time { return l.cut }
	journalled, sent := func(l *lap) time.Time { return l.journalled }, func(l *lap) time.Time { return l.sent }
	acknowledged := func(l *lap) time.Time { return l.acknowledged }
	report(b, "", between(begun, acknowledged))
	report(b, "read-", between(begun, cut))
	report(b, "journal-", between(cut, journalled))
	report(b, "wake-", between(journalled, sent))
	report(b, "produce-", between(sent, acknowledged))
	report(b, "bare-sync-", bare.synced)
	report(b, "bare-produce-", bare.produced)
}

// report reports the median and the 99th percentile.
func report(b *testing.B, of string, took []time.Duration) {
	slices.Sort(took)
	for name, at := range map[string]int{"p50-ms": 50, "p99-ms": 99} {
		b.ReportMetric(float64(took[len(took)*at/100].Microseconds())/1000, of+name)
	}
}

// bare measures the machine without Weir.
type bare struct {
	b                *testing.B
	file             *os.File
	synced, produced []time.Duration
}

func newBare(b *testing.B, folder string) *bare {
	file, err := os.OpenFile(filepath.Join(folder, "bare"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { file.Close() })
	return &bare{b: b, file: file}
}

func (r *bare) sync(bytes int) {
	begun := time.Now()
	if _, err := r.file.WriteString(strings.Repeat("x", bytes)); err != nil {
		r.b.Fatal(err)
	}
	if err := journal.RealDisk.Sync(r.file); err != nil {
		r.b.Fatal(err)
	}
	r.synced = append(r.synced, time.Since(begun))
}

// warm fills each partition past the first entry of its index, for which a broker makes files of 10 MiB, and lets the
// broker compile its code.
func (r *bare) warm(sink pipeline.Sink) {
	for range 200 {
		for p := range benchPartitions {
			r.produce(sink, topic.Message{Partition: p, Value: make([]byte, 200)})
		}
	}
	r.produced = nil
}

func (r *bare) produce(sink pipeline.Sink, message topic.Message) {
	done := make(chan error, 1)
	message.Done = func(_ int64, err error) { done <- err }
	begun := time.Now()
	if err := sink.Send(r.b.Context(), message); err != nil {
		r.b.Fatal(err)
	}
	if err := <-done; err != nil {
		r.b.Fatal(err)
	}
	r.produced = append(r.produced, time.Since(begun))
}
