package enforcer

import (
	"context"
	"net/http"
	"runtime"
	"time"

	"weir/internal/limited"
)

// Turns bound the goroutines that make lists at the same time, so that checks keep half of the processors for any
// number of list requests. A turn is given up while the list is sent, so slow readers delay no other client. Searches
// have turns of their own: each keeps its turn until it has looked through all, and lists do not wait for that. Nil has
// no bound.
type turns chan struct{}

// entriesATurn is how many entries are read before others get a turn.
const entriesATurn = 1024

func newTurns() turns { return make(turns, max(1, runtime.GOMAXPROCS(0)/2)) }

func (t turns) acquire() {
	if t != nil {
		t <- struct{}{}
	}
}

func (t turns) release() {
	if t != nil {
		<-t
	}
}

// take waits for a turn, and returns the function that ends it.
func (t turns) take() (end func()) {
	t.acquire()
	return t.release
}

// pass gives others a turn first.
func (t turns) pass() {
	t.release()
	t.acquire()
}

// maxListing is how many complete lists are answered at a time. Each needs a copy of the list's table meanwhile.
const maxListing = 64

// waitForPlace is how long a request waits when no place is free.
const waitForPlace = 5 * time.Second

// place waits for one of a few places.
func place(r *http.Request, places *limited.Places, what string) (leave func(), err error) {
	// Clients that come together are not refused at once: most answers take less than this.
	ctx, cancel := context.WithTimeout(r.Context(), waitForPlace)
	defer cancel()
	leave, ok := places.Take(ctx, r)
	if !ok {
		return nil, problemf(http.StatusServiceUnavailable, "%d others %s just now, or half as many of your address: ask again", places.All(), what)
	}
	return leave, nil
}

// The deadline of an answer that has a place: a fixed time, plus the time for its length at the slowest rate, in bytes
// a second.
const (
	placePatience = time.Minute
	slowest       = 64 << 10
)

// A hurried writer ends the connection when its client does not read the answer in time.
type hurried struct {
	http.ResponseWriter
	until time.Time
}

func hurry(w http.ResponseWriter) http.ResponseWriter {
	return &hurried{limited.Answer(w), time.Now().Add(placePatience)}
}

// Write writes in pieces.
func (h *hurried) Write(b []byte) (written int, err error) {
	const pieceBytes = 64 << 10

	// At least once, so that an empty write reaches the writer below, too.
	for begun := false; !begun || len(b) > 0; begun = true {
		if time.Now().After(h.until) {
			panic(http.ErrAbortHandler) // a part is not a valid answer
		}
		piece := b[:min(len(b), pieceBytes)]
		n, err := h.ResponseWriter.Write(piece)
		written += n
		h.until = h.until.Add(time.Duration(n) * time.Second / slowest)
		if err != nil {
			return written, err
		}

		b = b[len(piece):]
	}

	return written, nil
}

// Unwrap is for http.ResponseController.
func (h *hurried) Unwrap() http.ResponseWriter { return h.ResponseWriter }
