package bench

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A peer is a program that reads a log of the combined format from a file, and may name offenders.
type peer struct {
	name   string
	lines  int // from the beginning of the log; fewer for those that take long
	limits []limit
	read   func(b *testing.B, folder, log string) (reading, map[string]bool)
}

// A reading is the cost of reading the log.
type reading struct {
	took, used time.Duration // of the clock, of all processors
	peakKiB    int
}

const (
	peerLines     = 3_000_000
	slowPeerLines = 50_000
	tunedLines    = 200_000
)

var peers = []peer{
	{"weir", peerLines, threeLimits, readWithWeir},
	{"gawk", peerLines, threeLimits, readWithGawk},
	{"goaccess", 1_000_000, threeLimits, readWithGoAccess},
	{"fail2ban", slowPeerLines, threeLimits, fail2ban(threeLimits)},
	{"fail2ban-tuned", tunedLines, threeLimits[:1], fail2ban(threeLimits[:1], "--tuned")},
	{"crowdsec", slowPeerLines, threeLimits, crowdSec(threeLimits, debianParsers)},
	{"crowdsec-tuned", tunedLines, threeLimits[:1], crowdSec(threeLimits[:1], tunedParsers)},
}

// BenchmarkPeers has programs that people use today read the log of the river's site, or its beginning, and compares
// the offenders that they name with the textbook's. Debian programs that are not installed are unpacked into the cache
// folder; nothing is installed, and only the measured programs are started. `make bench-peers` makes a table of it.
func BenchmarkPeers(b *testing.B) {
	folder := b.TempDir()
	begin := beginFor(peerLines)
	for _, p := range peers {
		var truth *textbook
		b.Run(p.name, func(b *testing.B) {
			log := filepath.Join(folder, fmt.Sprintf("%d.log", p.lines))
			if truth == nil {
				truth = writeSite(b, log, p, begin)
			}
			for b.Loop() {
				took, said := p.read(b, b.TempDir(), log)
				took.report(b, p.lines)
				truth.report(b, said)
			}
		})
	}
}

func writeSite(b *testing.B, path string, p peer, begin time.Time) *textbook {
	b.Helper()
	file, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	truth, site, buffer := newTextbookOf(p.limits), newSite(riverClients, begin), bufio.NewWriterSize(file, 1<<20)
	for range p.lines {
		text, client, at := site.line()
		truth.add(client, at)
		buffer.WriteString(text + "\n")
	}
	if err := buffer.Flush(); err != nil {
		b.Fatal(err)
	}
	return truth
}

func (r reading) report(b *testing.B, lines int) {
	b.ReportMetric(float64(lines), "lines")
	b.ReportMetric(float64(lines)/r.took.Seconds(), "lines/s")
	b.ReportMetric(r.used.Seconds()/float64(lines)*1e6, "cpu-s/million")
	b.ReportMetric(float64(r.peakKiB)/1024, "MiB")
}

// report compares the named offenders with the truth. It reports no figures for a program that names none.
func (t *textbook) report(b *testing.B, said map[string]bool) {
	if said == nil {
		return
	}
	found, wrong := 0, 0
	for who := range said {
		if t.offenders[who] != 0 {
			found++
		} else {
			wrong++
		}
	}
	b.ReportMetric(100*float64(found)/float64(len(t.offenders)), "%found")
	b.ReportMetric(float64(wrong), "wrong")
	b.ReportMetric(float64(len(t.offenders)), "offenders")
}

// read runs a command to its end and returns its output and its log.
func read(b *testing.B, command *exec.Cmd) (took reading, out, logged string) {
	b.Helper()
	var said, log strings.Builder
	command.Stdout, command.Stderr = &said, &log
	began := time.Now()
	if err := command.Start(); err != nil {
		b.Skipf("not measured: %v", err)
	}
	ended, peak := make(chan struct{}), make(chan int)
	go func() { peak <- peakKiB(command.Process.Pid, ended) }()
	err := command.Wait()
	elapsed := time.Since(began)
	close(ended)
	if err != nil {
		b.Fatalf("%s: %v\n%.2000s", command.Path, err, log.String())
	}
	return reading{elapsed, command.ProcessState.UserTime() + command.ProcessState.SystemTime(), <-peak}, said.String(), log.String()
}

// peakKiB is the maximum memory of a process until it has ended, as the kernel counts it for the program alone: the
// figure of wait(2) includes the memory of the process that started it.
func peakKiB(pid int, ended <-chan struct{}) (peak int) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return peak
		case <-tick.C:
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue
		}
		var kib int
		if _, rest, found := strings.Cut(string(status), "VmHWM:"); found {
			fmt.Sscan(rest, &kib)
		}
		peak = max(peak, kib)
	}
}

// words are the first words of the lines.
func words(text string) map[string]bool {
	first := map[string]bool{}
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 0 {
			first[fields[0]] = true
		}
	}
	return first
}

// child is a command that ends when this process does, in any way.
func child(folder, name string, arguments ...string) *exec.Cmd {
	command := exec.Command(name, arguments...)
	command.Dir = folder
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return command
}
