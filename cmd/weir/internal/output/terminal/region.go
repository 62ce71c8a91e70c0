package terminal

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"weir/cmd/weir/internal/output"
)

const (
	maxPending  = 256 << 10 // bytes that wait for the terminal; lines beyond are counted
	keptLines   = 200       // lines that are written again after the terminal's size has changed
	drawEvery   = 500 * time.Millisecond
	closePeriod = time.Second // for a terminal that takes nothing, as after Ctrl-S
	noWrap      = "\x1b[?7l"
	wrap        = "\x1b[?7h"
)

// A Region is the last lines of a terminal, drawn again in place. Text that is written to it scrolls by above them. Write
// never waits for the terminal, and may be called from any goroutine.
type Region struct {
	out   *os.File
	wake  chan struct{}
	stop  context.CancelFunc
	ended chan struct{}

	mu      sync.Mutex
	pending strings.Builder                  // complete lines that are not written yet, and the start of another
	lost    int                              // lines that did not fit
	lines   func(columns, rows int) []string // nil: none are drawn

	// Only the drawing goroutine uses these.
	drawn         int // lines on the terminal
	columns, rows int
	kept          []string
}

// NewRegion starts to write to a terminal. Close has to follow.
func NewRegion(out *os.File) *Region {
	ctx, stop := context.WithCancel(context.Background())
	r := &Region{out: out, wake: make(chan struct{}, 1), stop: stop, ended: make(chan struct{})}
	r.columns, r.rows = sizeOf(out)
	go r.run(ctx)
	return r
}

// Write takes lines of a log. Characters that a terminal obeys are made printable.
func (r *Region) Write(p []byte) (int, error) {
	r.mu.Lock()
	if r.pending.Len()+len(p) > maxPending {
		r.lost += strings.Count(string(p), "\n")
	} else {
		r.pending.Write(p)
	}
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default: // it is awake
	}
	return len(p), nil
}

// Show sets the function that makes the lines of the region; nil removes them. The lines have to be printable, but for
// colours.
func (r *Region) Show(lines func(columns, rows int) []string) {
	r.mu.Lock()
	r.lines = lines
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Close removes the region and writes the lines that wait.
func (r *Region) Close() {
	r.Show(nil)
	r.stop()
	select {
	case <-r.ended:
	case <-time.After(closePeriod):
	}
}

func (r *Region) run(ctx context.Context) {
	defer close(r.ended)
	ticker := time.NewTicker(drawEvery)
	defer ticker.Stop()
	for last := false; !last; {
		select {
		case <-ctx.Done():
		case <-ticker.C:
		case <-r.wake:
		}
		last = ctx.Err() != nil
		_, _ = r.out.WriteString(r.frame(last)) // the process goes on without a terminal
	}
}

// frame returns what the terminal gets now: the region is removed, then come new lines, then the region again.
func (r *Region) frame(last bool) string {
	columns, rows := sizeOf(r.out)
	r.mu.Lock()
	fresh := r.take(last)
	lines := r.lines
	r.mu.Unlock()
	if !inForeground(r.out) {
		lines, r.drawn = nil, 0 // the shell writes below the region, so it stays where it is
	}

	if len(fresh) == 0 && r.drawn == 0 && (lines == nil || last) {
		return ""
	}
	var b strings.Builder
	b.WriteString(hold)
	switch {
	case r.drawn > 0 && (columns != r.columns || rows != r.rows):
		// Some terminals have wrapped the lines again and others have not, so their place is not known.
		b.WriteString(home + clearRest)
		fresh = append(r.kept[max(0, len(r.kept)-rows):], fresh...)
		r.kept = nil
	case r.drawn > 0:
		fmt.Fprintf(&b, "\x1b[%dA\r%s", r.drawn, clearRest)
	}
	r.columns, r.rows, r.drawn = columns, rows, 0
	for _, line := range fresh {
		b.WriteString(line + "\r\n")
	}
	r.kept = append(r.kept, fresh...)
	r.kept = r.kept[max(0, len(r.kept)-keptLines):]

	if lines != nil && !last {
		shown := lines(columns, rows)
		shown = shown[:min(len(shown), max(0, rows-1))]
		r.drawn = len(shown)
		b.WriteString(noWrap)
		for _, line := range shown {
			b.WriteString(line + "\r\n")
		}
		b.WriteString(wrap)
	}
	b.WriteString(release)
	return b.String()
}

// take returns the complete lines that wait; at the end also one that is not complete. The caller holds the lock.
func (r *Region) take(last bool) (lines []string) {
	text := r.pending.String()
	end := strings.LastIndexByte(text, '\n') + 1
	if last {
		end = len(text)
	}
	for line := range strings.Lines(text[:end]) {
		lines = append(lines, output.Printable(strings.TrimRight(line, "\r\n")))
	}
	r.pending.Reset()
	r.pending.WriteString(text[end:])
	if r.lost > 0 {
		lines = append(lines, output.Counted(r.lost, "line")+" of the log are not shown, because the terminal did not take them")
		r.lost = 0
	}
	return lines
}
