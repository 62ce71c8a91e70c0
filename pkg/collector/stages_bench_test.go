package collector

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"weir/pkg/collector/pipeline"
	"weir/pkg/collector/tape"
	"weir/pkg/hit"
	"weir/pkg/request"
	"weir/pkg/rule"
)

// benchLog is a combined log of a busy site: many clients, and few of them make most requests.
func benchLog(lines int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	clients := rand.NewZipf(random, 1.2, 8, 50_000)
	start := time.Date(2026, 3, 3, 8, 0, 0, 0, time.UTC)
	var b bytes.Buffer
	for n := range lines {
		client := clients.Uint64()
		fmt.Fprintf(&b, "10.%d.%d.%d - - [%s] \"GET /product/%d?ref=home HTTP/1.1\" 200 %d \"https://shop.example/\" \"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/144.0.0.0\"\n",
			client>>16&255, client>>8&255, client&255, start.Add(time.Duration(n/500)*time.Second).Format("02/Jan/2006:15:04:05 -0700"), random.IntN(5000), random.IntN(50_000))
	}
	return b.Bytes()
}

func benchRules(b testing.TB) *rule.Set {
	set, err := rule.FromLimits([]string{"10/min", "100/hour"}, "ip")
	if err != nil {
		b.Fatal(err)
	}
	return set
}

const benchLines = 200_000

// perLine reports the clock and processor time per line. On a shared machine only the latter is significant.
func perLine(b *testing.B, lines int, before time.Duration) {
	all := float64(b.N) * float64(lines)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(all/b.Elapsed().Seconds()/1e6, "Mlines/s")
	b.ReportMetric(float64(processorTime()-before)/all, "cpu-ns/line")
}

// processorTime is what the process has used so far.
func processorTime() time.Duration {
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkStages measures each stage with those before it.
func BenchmarkStages(b *testing.B) {
	log := benchLog(benchLines)
	path := filepath.Join(b.TempDir(), "access.log")
	if err := os.WriteFile(path, log, 0o644); err != nil {
		b.Fatal(err)
	}
	set := benchRules(b)
	decoder, err := request.NewDecoder("none", "combined", request.Options{})
	if err != nil {
		b.Fatal(err)
	}
	decoder.Want(set.Reads())
	client := request.NewClient(nil)
	judge := set.NewJudge()
	writers := make([]*hit.Writer, 16)
	for i := range writers {
		writers[i] = hit.NewWriter()
		writers[i].Reset([]string{"per-ip"})
	}
	var r request.Request
	parse := func(line []byte) { decoder.Decode(request.Text(line), &r) }
	resolve := func(line []byte) { parse(line); client.Resolve(&r) }
	judged := func(line []byte) { resolve(line); judge.Hits(&r) }
	encode := func(line []byte) {
		resolve(line)
		for _, h := range judge.Hits(&r) {
			w := writers[hit.Partition("per-ip", h.Key, 16)]
			if w.Size() > 8<<10 {
				w.Append(nil, hit.Header{Source: "x", To: 1})
				w.Reset([]string{"per-ip"})
			}
			w.Add(h.Rule, h.Key, r.UnixMilli, h.Cost)
		}
	}
	for _, stage := range []struct {
		name string
		line func([]byte)
	}{{"read", func([]byte) {}}, {"read+parse", parse}, {"read+parse+client", resolve}, {"read+parse+client+rules", judged}, {"read+parse+client+rules+encode", encode}} {
		b.Run(stage.name, func(b *testing.B) {
			before := processorTime()
			for b.Loop() {
				readAll(b, path, stage.line)
			}
			perLine(b, benchLines, before)
		})
	}
}

func readAll(b testing.TB, path string, each func([]byte)) {
	file, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	t, err := tape.Open(file, "", nil, 0, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer t.Close()
	for {
		for {
			line, _, ok := t.Line()
			if !ok {
				break
			}
			each(line)
		}
		if t.More() != nil {
			return
		}
	}
}

// BenchmarkCollector measures a whole collector, from a file to a sink in memory.
func BenchmarkCollector(b *testing.B) {
	log := benchLog(benchLines)
	before := processorTime()
	for b.Loop() {
		c := newBench(b, "access.log")
		c.config.Rules = benchRules(b)
		c.config.Logger = nil
		if err := os.WriteFile(c.Path("access.log"), log, 0o644); err != nil {
			b.Fatal(err)
		}
		c.start()
		for readTo(c.collector.Status().Sources[0]) < int64(len(log)) {
			time.Sleep(time.Millisecond)
		}
		c.stop()
	}
	perLine(b, benchLines, before)
}

func readTo(s pipeline.SourceStatus) (position int64) {
	for _, log := range s.Logs {
		position += log.Position
	}
	return position
}
