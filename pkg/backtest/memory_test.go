package backtest

import (
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"
)

// endless returns lines of a few clients, a hundred a second, up to a number of lines.
type endless struct {
	lines, left int
	rest        []byte
}

func (e *endless) Read(p []byte) (int, error) {
	for len(e.rest) < len(p) && e.left > 0 {
		n := e.lines - e.left
		at := noon.Add(time.Duration(n) * 10 * time.Millisecond)
		e.rest = fmt.Appendf(e.rest, "192.0.2.%d - - [%s] \"GET /%d HTTP/1.1\" 200 5 \"-\" \"x\"\n", n%200, at.Format("02/Jan/2006:15:04:05 -0700"), n)
		e.left--
	}
	n := copy(p, e.rest)
	e.rest = e.rest[:copy(e.rest, e.rest[n:])]
	if n == 0 && e.left == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// The memory in use does not grow with the lines. Ten minutes, the lateness, are 60,000 lines.
func TestMemoryDoesNotGrowWithTheLog(t *testing.T) {
	most := func(lines int) (bytes uint64) {
		c := usualConfig(t, Input{Path: "endless", Reader: &endless{lines: lines, left: lines}})
		c.Timelines = true
		chunks := 0
		c.Progress = func(int64, int64) {
			if chunks++; chunks%16 != 0 {
				return
			}
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			bytes = max(bytes, m.HeapAlloc)
		}
		if r := runConfig(t, c); r.Requests != int64(lines) {
			t.Fatalf("%d requests of %d", r.Requests, lines)
		}
		return bytes
	}
	short, long := most(300_000), most(1_500_000)
	if long > short+short/4 {
		t.Errorf("%d bytes for 300,000 lines, %d for 1,500,000", short, long)
	}
}

// Parsing, judging and counting a line allocates nothing once everything has grown.
func TestLinesAreCountedWithoutAllocation(t *testing.T) {
	c := usualConfig(t)
	c.setDefaults()
	p, err := newPass(&c)
	if err != nil {
		t.Fatal(err)
	}
	p.logs = []*log{{}}
	p.logs[0].choice.Envelope, p.logs[0].choice.Format = "none", "combined"
	p.total = newTotal(1, seriesBars)
	w, run1000 := p.newWorker(), &chunk{log: p.logs[0]}
	for i := range 1000 {
		run1000.data = append(run1000.data, combined(fmt.Sprintf("192.0.2.%d", i*i%97), noon.Add(time.Duration(i)*time.Second))...)
	}
	shift := int64(0)
	count := func() {
		w.parse(run1000)
		key := uint32(0)
		for i := range run1000.hits {
			h := &run1000.hits[i]
			h.at += shift
			if err := p.hit(run1000, h, run1000.keys[key:h.keyEnd]); err != nil {
				t.Fatal(err)
			}
			key = h.keyEnd
		}
		if err := p.chunk(run1000); err != nil {
			t.Fatal(err)
		}
		shift += 1_000_000
	}
	for range 200 { // windows of a day fill
		count()
	}
	if n := testing.AllocsPerRun(50, count); n > 0 {
		t.Errorf("%v allocations for 1,000 lines", n)
	}
}
