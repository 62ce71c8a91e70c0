package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"weir/internal/kafka/kafkatest"
)

const (
	liveTick    = 5 * time.Millisecond
	liveSeconds = 20
	liveWarm    = 3 * time.Second        // after the first offender is found
	probeEvery  = 200 * time.Millisecond // a client breaks the limit
	probeAfter  = 2 * time.Second        // between its last allowed request and the one that breaks the limit
	probeWait   = 5 * time.Second        // for the last ones
	firstWait   = 2 * time.Minute        // until the contender finds anything
)

var liveRates = []int{500, 5_000, 20_000, 50_000}

// A liveContender follows a log that grows. start may skip the benchmark.
type liveContender struct {
	name  string
	most  int // lines per second that it can follow; 0 is any rate
	start func(b *testing.B, folder, log string) *live
}

// live is a started contender.
type live struct {
	running
	kafka *kafkatest.Cluster // nil when there is none
	watch func(ctx context.Context, found func(client string))
}

var liveContenders = []liveContender{
	{"weir-run", 0, liveOneProcess},
	{"weir-apart", 0, liveApart},
	{"fail2ban", 5_000, liveFail2ban},
	{"crowdsec", 5_000, liveCrowdSec},
}

// BenchmarkLive has each contender follow a log to which lines are written at a steady rate, every 5 ms, for 20 seconds.
// All clients keep the limit of 10/min, except five a second, which send a request too many. It reports the processor
// time of each process as a share of one core, and how long it took from the write of that last request until the
// client was on Weir's list, or in the other program's log:
//
//	go test -run '^$' -bench 'Live/lines=500$' -benchtime 1x ./test/bench
//
// The contenders take turns, each with a log of its own, with the same lines. What Java compiles is not counted.
func BenchmarkLive(b *testing.B) {
	for _, rate := range liveRates {
		for _, c := range liveContenders {
			if c.most > 0 && rate > c.most {
				continue
			}
			b.Run(fmt.Sprintf("lines=%d/%s", rate, c.name), func(b *testing.B) {
				for b.Loop() {
					followLive(b, c, rate)
				}
			})
		}
	}
}

func followLive(b *testing.B, c liveContender, rate int) {
	folder := b.TempDir()
	log := filepath.Join(folder, "access.log")
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	l := c.start(b, folder, log)
	defer l.stop()

	w := &liveWriter{rate: rate, file: file, broke: map[string]time.Time{}, found: map[string]time.Duration{}}
	ctx, stop := context.WithCancel(b.Context())
	var working sync.WaitGroup
	defer working.Wait()
	defer stop()
	working.Go(func() { l.watch(ctx, w.note) })
	working.Go(func() { w.run(ctx) })
	for deadline := time.Now().Add(firstWait); w.results(0, 0).found == 0; time.Sleep(10 * time.Millisecond) {
		l.alive(b)
		if time.Now().After(deadline) {
			b.Fatal("no offender is found")
		}
	}

	time.Sleep(liveWarm)
	began, before, first := time.Now(), l.seconds(b), w.results(0, 0).probes
	time.Sleep(liveSeconds * time.Second)
	took, after, last := time.Since(began).Seconds(), l.seconds(b), w.results(0, 0).probes
	for deadline := time.Now().Add(probeWait); time.Now().Before(deadline) && w.results(first, last).found < last-first; {
		time.Sleep(10 * time.Millisecond)
	}

	for name, used := range after {
		b.ReportMetric((used-before[name])/took*100, "%core-"+name)
	}
	w.results(first, last).report(b)
}

// seconds are the processor seconds so far: own, and of kafka and redis if there are any.
func (l *live) seconds(b *testing.B) map[string]float64 {
	b.Helper()
	s := map[string]float64{"own": l.processorSeconds(b)}
	if len(l.processes) > 1 {
		for _, p := range l.processes {
			s[filepath.Base(p.Path)] = p.processorSeconds(b)
		}
	}
	if l.kafka != nil {
		s["kafka"] = (l.kafka.CPU() - l.kafka.Compiling()).Seconds()
		s["redis"] = l.redisSeconds(b)
	}
	return s
}

// A liveWriter writes lines at a rate.
type liveWriter struct {
	rate int
	file *os.File

	mu     sync.Mutex
	probes []string             // clients that have broken the limit, in their order
	broke  map[string]time.Time // when
	found  map[string]time.Duration
}

func (w *liveWriter) run(ctx context.Context) {
	ticker := time.NewTicker(liveTick)
	defer ticker.Stop()
	began, written, ticks, others := time.Now(), 0, 0, 0
	var b []byte
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}

		// A tick that came too late is made up for.
		now := time.Now()
		b = b[:0]
		for due := int(now.Sub(began).Seconds() * float64(w.rate)); written < due; written++ {
			others = (others + 1) % (8 * w.rate) // a client has 7.5 requests in a minute
			b = liveLine(b, fmt.Sprintf("%d.%d.%d.7", 11+others/62_500, others/250%250, others%250), others, now)
		}

		breaks := ""
		if every, after := int(probeEvery/liveTick), int(probeAfter/liveTick); ticks%every == 0 {
			for n := range threeLimits[0].hits {
				b = liveLine(b, probeClient(ticks/every), n, now)
			}
			written += threeLimits[0].hits
			if ticks >= after {
				breaks = probeClient((ticks - after) / every)
				b = liveLine(b, breaks, ticks, now)
				written++
			}
		}
		ticks++

		w.probe(breaks)
		if _, err := w.file.Write(b); err != nil {
			return
		}
	}
}

func probeClient(n int) string { return fmt.Sprintf("198.18.%d.%d", n/250, 1+n%250) }

func liveLine(b []byte, client string, page int, at time.Time) []byte {
	page %= 500
	return fmt.Appendf(b, "%s - - [%s] \"GET /shop/item/%d?from=%d HTTP/1.1\" 200 %d \"https://shop.example/\" \"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36\"\n",
		client, at.UTC().Format(clf), page, page%7, 500+page)
}

// probe notes that a client is about to break the limit.
func (w *liveWriter) probe(client string) {
	if client == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.probes = append(w.probes, client)
	w.broke[client] = time.Now()
}

// note notes that a client was found.
func (w *liveWriter) note(client string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	broke, breaks := w.broke[client]
	if _, known := w.found[client]; breaks && !known {
		w.found[client] = time.Since(broke)
	}
}

// liveResults are the results of some probes.
type liveResults struct {
	probes, found int
	took          []time.Duration
}

// results returns those of the probes from first to before last; a last of 0 means all of them.
func (w *liveWriter) results(first, last int) liveResults {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last == 0 {
		last = len(w.probes)
	}
	r := liveResults{probes: last - first}
	for _, client := range w.probes[first:last] {
		if took, found := w.found[client]; found {
			r.took = append(r.took, took)
		}
	}
	r.found = len(r.took)
	return r
}

func (r liveResults) report(b *testing.B) {
	b.Helper()
	b.ReportMetric(100*float64(r.found)/float64(r.probes), "%found")
	if r.found == 0 {
		return
	}
	slices.Sort(r.took)
	for name, at := range map[string]int{"p50-ms": r.found / 2, "p99-ms": r.found * 99 / 100} {
		b.ReportMetric(float64(r.took[at])/float64(time.Millisecond), name)
	}
}
