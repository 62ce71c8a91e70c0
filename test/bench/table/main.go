// Table makes a table of the output of benchmarks that compare programs:
//
//	go test -bench 'Peers|River|FileToBlocklist|Live|RateLimit' ./test/bench | go run ./test/bench/table
//	go test -bench Takeover ./test/crash | go run ./test/bench/table
//
// It copies its input to standard error. For a program that ran more than once it prints the median of its figures, and
// the least and the greatest.
package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

func main() { os.Exit(run(os.Stdin, os.Stdout, os.Stderr)) }

func run(in io.Reader, out, progress io.Writer) int {
	rows, err := read(io.TeeReader(in, progress))
	if err != nil {
		fmt.Fprintln(progress, "reading the benchmarks:", err)
		return 1
	}
	if len(rows) == 0 {
		fmt.Fprintln(progress, "no benchmark has said anything")
		return 1
	}

	head, rule := "| program |", "| --- |"
	var shown []column
	for _, c := range columns {
		if slices.ContainsFunc(rows, func(r row) bool { return len(r.figures[c.unit]) > 0 }) {
			shown = append(shown, c)
			head += " " + c.title + " |"
			rule += " --- |"
		}
	}
	fmt.Fprintln(out, head+"\n"+rule)
	for _, r := range rows {
		line := "| " + r.name + " |"
		for _, c := range shown {
			line += " " + r.spread(c.unit, c.write) + " |"
		}
		fmt.Fprintln(out, line)
	}

	return 0
}

// A column shows the figures of a unit. It is left out when no benchmark has any.
type column struct {
	title, unit string
	write       func(float64) string
}

var columns = []column{
	{"lines/s", "lines/s", speed},
	{"requests/s", "requests/s", speed},
	{"CPU s per million", "cpu-s/million", seconds},
	{"of Kafka", "kafka-cpu-s/million", seconds},
	{"of Redis", "redis-cpu-s/million", seconds},
	{"of all", "all-cpu-s/million", seconds},
	{"from the start: lines/s", "start-lines/s", speed},
	{"from the start: CPU s", "start-cpu-s/million", seconds},
	{"from the start: of all", "start-all-cpu-s/million", seconds},
	{"peak MiB", "MiB", whole},
	{"MiB of Redis", "redis-MiB", whole},
	{"found", "%found", percent},
	{"at the right second", "%timed", percent},
	{"wrong", "wrong", whole},
	{"CPU, % of a core", "%core-own", tenths},
	{"of the collector", "%core-collector", tenths},
	{"aggregator", "%core-aggregator", tenths},
	{"enforcer", "%core-enforcer", tenths},
	{"Kafka", "%core-kafka", tenths},
	{"Redis", "%core-redis", tenths},
	{"p50 ms", "p50-ms", whole},
	{"p99 ms", "p99-ms", whole},
	{"moved partitions stand still, s", "moved-s", seconds},
	{"others, s", "stayed-s", seconds},
}

// A row is a benchmark, and its figures by unit, one of each run.
type row struct {
	name    string
	figures map[string][]float64
}

// read reads the lines with results: a name, the number of runs, then figures and units in turn.
func read(in io.Reader) ([]row, error) {
	var rows []row
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		if _, err := strconv.Atoi(fields[1]); err != nil {
			continue
		}

		name := label(fields[0])
		at := slices.IndexFunc(rows, func(r row) bool { return r.name == name })
		if at < 0 {
			at, rows = len(rows), append(rows, row{name, map[string][]float64{}})
		}

		for i := 2; i+1 < len(fields); i += 2 {
			if figure, err := strconv.ParseFloat(fields[i], 64); err == nil {
				rows[at].figures[fields[i+1]] = append(rows[at].figures[fields[i+1]], figure)
			}
		}
	}

	return rows, lines.Err()
}

// label is the benchmark's name without its first word and the number of processors.
func label(name string) string {
	name = strings.TrimPrefix(name, "Benchmark")
	if at := strings.LastIndexByte(name, '-'); at > 0 {
		if _, err := strconv.Atoi(name[at+1:]); err == nil {
			name = name[:at]
		}
	}
	return name
}

// spread is the median of the figures, with the least and the greatest if they differ.
func (r row) spread(unit string, write func(float64) string) string {
	figures := slices.Clone(r.figures[unit])
	if len(figures) == 0 {
		return ""
	}
	slices.SortFunc(figures, cmp.Compare[float64])
	middle, least, most := write(figures[len(figures)/2]), write(figures[0]), write(figures[len(figures)-1])
	if least == most {
		return middle
	}
	return fmt.Sprintf("%s (%s to %s)", middle, least, most)
}

func speed(perSecond float64) string {
	if perSecond < 10_000 {
		return fmt.Sprintf("%.2g k", perSecond/1e3)
	}
	if perSecond < 1_000_000 {
		return fmt.Sprintf("%.0f k", perSecond/1e3)
	}
	return fmt.Sprintf("%.1f M", perSecond/1e6)
}

func seconds(s float64) string {
	if s < 10 {
		return fmt.Sprintf("%.2f", s)
	}
	return whole(s)
}

func tenths(n float64) string { return fmt.Sprintf("%.1f", n) }

func whole(n float64) string { return fmt.Sprintf("%.0f", n) }

// percent shows the fraction of nearly all, which would look like all of them.
func percent(n float64) string {
	if n > 99 && n < 100 {
		return fmt.Sprintf("%.2f%%", math.Floor(n*100)/100)
	}
	return fmt.Sprintf("%.0f%%", n)
}
