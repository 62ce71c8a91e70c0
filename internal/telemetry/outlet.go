package telemetry

import (
	"io"
	"sync"
	"time"
)

const (
	// outletPatience is how long a line of the log may take before the program goes on without waiting for it.
	outletPatience = 100 * time.Millisecond
	// outletRoom is how many bytes of lines wait for an output that takes none. Later lines are lost.
	outletRoom = 1 << 20
)

// An outlet passes the lines of a log on to an output that may hang, such as a pipe that no one reads or a terminal
// that is stopped. Lines are written in order, and as long as the output takes them, Write returns when they are
// written. A line must never hold up the work that it is about.
type outlet struct {
	to   io.Writer
	lost func(lines int) []byte // a line which reports that lines were lost

	mu      sync.Mutex
	waiting []byte
	dropped int           // lines lost since the last report
	written chan struct{} // closed when the waiting lines are written
	writing bool          // a goroutine writes
	hangs   bool          // the output did not take a line in time, and has not taken it since
}

func newOutlet(to io.Writer, lost func(lines int) []byte) *outlet {
	return &outlet{to: to, lost: lost, written: make(chan struct{})}
}

// Write takes one line. It reports no errors, because no one could be informed of them.
func (o *outlet) Write(line []byte) (int, error) {
	written, hangs := o.add(line)
	if hangs {
		return len(line), nil
	}

	patience := time.NewTimer(outletPatience)
	defer patience.Stop()
	select {
	case <-written:
	case <-patience.C:
		o.mu.Lock()
		o.hangs = o.writing
		o.mu.Unlock()
	}
	return len(line), nil
}

// add lets a line wait, and has the waiting lines written.
func (o *outlet) add(line []byte) (written <-chan struct{}, hangs bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dropped > 0 || len(o.waiting)+len(line) > outletRoom {
		o.dropped++
	} else {
		o.waiting = append(o.waiting, line...)
	}
	if !o.writing {
		o.writing = true
		go o.write()
	}

	return o.written, o.hangs
}

// write writes until no lines wait.
func (o *outlet) write() {
	for {
		lines, written := o.take()
		if lines == nil {
			return
		}
		_, _ = o.to.Write(lines) // a closed output takes nothing any more; the program works on without a log

		o.mu.Lock()
		o.hangs = false
		o.mu.Unlock()
		close(written)
	}
}

// take returns the lines to write next, nil if there are none.
func (o *outlet) take() (lines []byte, written chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	lines, written = o.waiting, o.written
	if o.dropped > 0 {
		lines = append(lines, o.lost(o.dropped)...)
	}
	o.waiting, o.dropped = nil, 0
	if len(lines) == 0 {
		o.writing = false
		return nil, nil
	}

	o.written = make(chan struct{})
	return lines, written
}
