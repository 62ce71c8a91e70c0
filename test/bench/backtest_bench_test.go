// Package bench measures Weir and programs that are used for the same purpose.
package bench

import (
	"bufio"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const logLines = 1_000_000

// The programs read one log of the combined format; none of the others does exactly the same as weir.
//
//   - weir finds the clients that break three sliding limits, when and by how much, in the order of time.
//   - gawk counts by address in the minutes, hours and days of the clock, as one would write it in a line.
//   - goaccess makes its statistics of visitors, pages and so on.
var programs = []struct {
	name    string
	command func(weir, log, out string) []string
}{
	{"weir", func(weir, log, _ string) []string {
		return []string{weir, "backtest", "--limit", "10/min", "--limit", "100/hour", "--limit", "1000/day", "--key", "ip", "--json", log}
	}},
	{"gawk", func(_, log, _ string) []string { return []string{"gawk", gawkCounts, log} }},
	{"goaccess", func(_, log, out string) []string {
		return []string{"goaccess", "--no-global-config", "--no-progress", "--log-format=COMBINED", "-o", filepath.Join(out, "report.json"), log}
	}},
}

const gawkCounts = `{
	t = substr($4, 2)
	if (++minute[$1, substr(t, 1, 17)] == 11 || ++hour[$1, substr(t, 1, 14)] == 101 || ++day[$1, substr(t, 1, 11)] == 1001) blocked[$1] = t
}
END { for (k in blocked) print k, blocked[k] }`

// BenchmarkBacktestAndOthers runs each installed program, the first time without counting, so that the log is in
// memory for all of them:
//
//	go test -run '^$' -bench BacktestBesideOthers -benchtime 3x ./test/bench
func BenchmarkBacktestAndOthers(b *testing.B) {
	dir := b.TempDir()
	weir := filepath.Join(dir, "weir")
	if out, err := exec.Command("go", "build", "-o", weir, "weir/cmd/weir").CombinedOutput(); err != nil {
		b.Fatalf("weir: %v\n%s", err, out)
	}
	for _, clients := range []int{3_000, 300_000} {
		log := filepath.Join(dir, fmt.Sprintf("%d.log", clients))
		writeLog(b, log, clients)
		for _, p := range programs {
			b.Run(fmt.Sprintf("clients=%d/%s", clients, p.name), func(b *testing.B) {
				measure(b, p.command(weir, log, dir), log)
			})
		}
	}
}

// measure reports the lines a second, the time of all processors for a million lines, and the most memory.
func measure(b *testing.B, command []string, log string) {
	if _, err := exec.LookPath(command[0]); err != nil {
		b.Skipf("%s is not installed", command[0])
	}
	if info, err := os.Stat(log); err == nil {
		b.SetBytes(info.Size())
	}
	var used time.Duration
	var mostBytes int64
	runOnce(b, command)
	for b.Loop() {
		state := runOnce(b, command)
		used += state.UserTime() + state.SystemTime()
		mostBytes = max(mostBytes, state.SysUsage().(*syscall.Rusage).Maxrss*1024)
	}
	lines := float64(b.N) * logLines
	b.ReportMetric(lines/b.Elapsed().Seconds(), "lines/s")
	b.ReportMetric(used.Seconds()/lines*1e6, "cpu-s/million")
	b.ReportMetric(float64(mostBytes)/(1<<20), "MiB")
}

func runOnce(b *testing.B, command []string) *os.ProcessState {
	c := exec.Command(command[0], command[1:]...)
	if out, err := c.CombinedOutput(); err != nil {
		b.Fatalf("%s: %v\n%.500s", strings.Join(command, " "), err, out)
	}
	return c.ProcessState
}

// writeLog writes a log in which few of the clients make many requests and many make few.
func writeLog(b *testing.B, path string, clients int) {
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	random := rand.New(rand.NewPCG(1, 2))
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for range logLines {
		at = at.Add(time.Duration(random.ExpFloat64() * float64(300*time.Millisecond)))
		client := int(math.Pow(random.Float64(), 3) * float64(clients))
		page := random.IntN(500)
		fmt.Fprintf(w, "%d.%d.%d.7 - - [%s] \"GET /shop/item/%d?from=%d HTTP/1.1\" 200 %d \"https://shop.example/\" \"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36\"\n",
			11+client/62_500, client/250%250, client%250, at.Format("02/Jan/2006:15:04:05 -0700"), page, page%7, 500+page)
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
}
