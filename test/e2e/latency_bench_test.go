package e2e

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"
)

const (
	probes     = 300
	probeEvery = 50 * time.Millisecond
	tick       = 5 * time.Millisecond
)

// BenchmarkLatency measures from the line that breaks a limit, as it is written to the log, to the first check that is
// refused, while others' lines are written to the same log:
//
//	go test -run '^$' -bench Latency -benchtime 1x -timeout 30m ./test/e2e
//
// It prints a histogram and reports the median and the 99th of a hundred.
func BenchmarkLatency(b *testing.B) {
	for _, arrangement := range []struct {
		name  string
		start func(*testing.B) *fleet
	}{{"one-process", oneProcess}, {"apart", threeProcesses}} {
		for _, rate := range []int{1_000, 50_000} {
			b.Run(fmt.Sprintf("%s/lines=%d", arrangement.name, rate), func(b *testing.B) {
				f := arrangement.start(b)
				f.ready()
				for b.Loop() {
					f.probe(b, rate)
				}
			})
		}
	}
}

const (
	latencyLimit = 100 // a minute
	latencyRules = "rules: [{name: per-ip, key: ip, limits: [100/min, 10000/hour], block: {for: 10m}}]\n"
	hotKeys      = "aggregator.hot_keys=200000" // all clients
)

func oneProcess(b *testing.B) *fleet {
	f := newFleet(b, latencyRules, "")
	f.start(build(b, "weir"), "run", "--set", hotKeys)
	return f
}

func threeProcesses(b *testing.B) *fleet {
	f := newFleet(b, latencyRules, apart(b))
	for _, part := range []string{"collector", "aggregator", "enforcer"} {
		if part == "aggregator" {
			f.start(build(b, part), "--set", hotKeys)
			continue
		}
		f.start(build(b, part))
	}
	return f
}

// A writtenLog is a log to which several goroutines write complete lines.
type writtenLog struct {
	mu   sync.Mutex
	file *os.File
}

func (l *writtenLog) append(b []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.file.Write(b)
	return err
}

func logLine(b []byte, client string, at time.Time) []byte {
	return fmt.Appendf(b, "%s - - [%s] \"GET /shop/item HTTP/1.1\" 200 512 \"https://shop.example/\" \"Mozilla/5.0 (X11; Linux x86_64)\"\n", client, at.UTC().Format("02/Jan/2006:15:04:05 -0700"))
}

func (f *fleet) probe(b *testing.B, rate int) {
	file, err := os.OpenFile(f.path("access.log"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	f.probeLog(b, &writtenLog{file: file}, rate)
}

// A lineLog is a log to which complete lines are appended, by several goroutines.
type lineLog interface{ append(lines []byte) error }

// probeLog measures from a line in a log to the refusal, while others' lines are written there.
func (f *fleet) probeLog(b *testing.B, log lineLog, rate int) {
	ctx, stop := context.WithCancel(b.Context())
	var others sync.WaitGroup
	defer others.Wait()
	defer stop()
	others.Go(func() { writeOthers(ctx, log, rate) })

	number, every := probes, probeEvery
	if of, ok := log.(interface{ probes() (int, time.Duration) }); ok {
		number, every = of.probes()
	}
	took := make([]time.Duration, number)
	var asking sync.WaitGroup
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for i := range took {
		<-ticker.C
		asking.Go(func() { took[i] = f.timeToRefusal(log, fmt.Sprintf("198.18.%d.%d", i/250, 1+i%250)) })
	}
	asking.Wait()
	took = took[number/10:] // the first ones fill caches
	if slices.Contains(took, 0) {
		b.Fatal("an offender was never refused")
	}
	slices.Sort(took)
	b.ReportMetric(milliseconds(took[len(took)/2]), "p50-ms")
	b.ReportMetric(milliseconds(took[len(took)*99/100]), "p99-ms")
	b.Log("\n" + histogram(took))
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// timeToRefusal writes the allowed lines and, long after these are counted, one more. It is 0 when the client is never
// refused.
func (f *fleet) timeToRefusal(log lineLog, client string) time.Duration {
	var lines []byte
	for range latencyLimit {
		lines = logLine(lines, client, time.Now())
	}
	if log.append(lines) != nil {
		return 0
	}
	time.Sleep(2 * time.Second)
	line := logLine(nil, client, time.Now())
	begun := time.Now()
	if log.append(line) != nil {
		return 0
	}
	for time.Since(begun) < patience {
		if f.checks(client) == http.StatusTooManyRequests {
			return time.Since(begun)
		}
		time.Sleep(time.Millisecond / 2)
	}
	return 0
}

// writeOthers writes lines of clients that keep their limits.
func writeOthers(ctx context.Context, log lineLog, rate int) {
	pause := tick
	if of, ok := log.(interface{ pause() time.Duration }); ok {
		pause = of.pause()
	}
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	perTick := float64(rate) * pause.Seconds()
	clients := max(1000, 2*rate) // at most 60 times a minute each
	due, next := 0.0, 0
	var b []byte
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			b = b[:0]
			for due += perTick; due >= 1; due-- {
				next = (next + 1) % clients
				b = logLine(b, fmt.Sprintf("%d.%d.%d.1", 20+next/65536, next/256%256, next%256), now)
			}
			if len(b) > 0 && log.append(b) != nil {
				return
			}
		}
	}
}

// histogram draws the distribution of the times, in powers of the root of two.
func histogram(took []time.Duration) string {
	counts := map[int]int{}
	least, most := math.MaxInt, 0
	for _, d := range took {
		bucket := int(math.Floor(2 * math.Log2(milliseconds(d))))
		counts[bucket]++
		least, most = min(least, bucket), max(most, bucket)
	}
	var text []byte
	for bucket := least; bucket <= most; bucket++ {
		text = fmt.Appendf(text, "%8.1f ms %5d %s\n", math.Exp2(float64(bucket+1)/2), counts[bucket], bar(counts[bucket], len(took)))
	}
	return string(text)
}

func bar(count, all int) string {
	const whole = "############################################################"
	return whole[:len(whole)*count/all]
}
