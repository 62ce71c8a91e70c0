// Table makes a table of the output of benchmarks that compare programs:
//
//	go test -bench 'Peers|River|FileToBlocklist' ./test/bench | go run ./test/bench/table
//
// It copies its input to standard error. For a program that ran more than once it prints the median of its figures, and
// the least and the greatest.
package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
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

	fmt.Fprintln(out, "| program | lines/s | CPU s per million | of Kafka | of Redis | peak MiB | found | wrong |")
	fmt.Fprintln(out, "| --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, r := range rows {
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", r.name, r.spread("lines/s", speed), r.spread("cpu-s/million", seconds),
			r.spread("kafka-cpu-s/million", seconds), r.spread("redis-cpu-s/million", seconds), r.spread("MiB", whole), r.spread("%found", percent), r.spread("wrong", whole))
	}

	return 0
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

func whole(n float64) string   { return fmt.Sprintf("%.0f", n) }
func percent(n float64) string { return fmt.Sprintf("%.0f%%", n) }
