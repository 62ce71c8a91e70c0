package rabbit

import (
	"net"
	"sync"
	"time"

	"weir/internal/sleep"
)

// A held connection is not read while too much of what came over it waits. The server then waits, too.
type held struct {
	net.Conn
	waiting *waiting
}

func (h *held) Read(b []byte) (int, error) {
	if h.waiting.room() {
		_ = h.SetReadDeadline(time.Now().Add(3 * heartbeat)) // the one that was set has passed meanwhile
	}
	n, err := h.Conn.Read(b)
	h.waiting.came(n)
	return n, err
}

// Close ends the waiting, too.
func (h *held) Close() error {
	h.waiting.end()
	return h.Conn.Close()
}

// waiting is how many bytes have come and were not taken. Only tookAll takes the bytes around messages.
type waiting struct {
	full chan struct{} // there is no room

	mu    sync.Mutex
	freed *sync.Cond
	bytes int
	ended bool
}

func newWaiting() *waiting {
	w := &waiting{full: make(chan struct{}, 1)}
	w.freed = sync.NewCond(&w.mu)
	return w
}

// room returns when there is room, and whether it waited for that.
func (w *waiting) room() (waited bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.bytes >= untakenBytes && !w.ended {
		waited = true
		sleep.Wake(w.full)
		w.freed.Wait()
	}
	return waited
}

func (w *waiting) came(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bytes += n
}

func (w *waiting) took(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bytes = max(0, w.bytes-n)
	w.freed.Signal()
}

// tookAll makes room, if there still is none.
func (w *waiting) tookAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bytes >= untakenBytes {
		w.bytes = 0
		w.freed.Signal()
	}
}

// end lets everything come.
func (w *waiting) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.freed.Signal()
}
