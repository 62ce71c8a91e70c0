package backtest

import (
	"hash/maphash"
	"time"

	"weir/internal/seen"
	"weir/pkg/request"
)

// A Dedupe counts each request once that the inputs have several times, by a value that the server gives each request, as a
// source with dedupe does: of requests whose times are at most Within apart, the one that is read first.
type Dedupe struct {
	By     string // a further field of requests; "" counts all
	Within time.Duration
	Most   int // values that are remembered
}

// repeated finds the requests that were seen before, in the order in which the merge has them.
type repeated struct {
	memory   *seen.Memory // nil without Dedupe
	dropping bool         // the hits are of such a request
	count    int64
}

func newRepeated(d Dedupe) (r repeated) {
	if d.By != "" {
		r.memory = seen.New(d.Most, d.Within)
	}
	return r
}

// drops reports whether a hit does not count.
func (r *repeated) drops(h *hit) bool {
	if r.memory == nil {
		return false
	}
	if h.begins {
		r.dropping = h.id != 0 && r.memory.Add(seen.Value{Hash: h.id, At: h.at})
		if r.dropping {
			r.count++
		}
	}
	return r.dropping || h.none
}

// identify gives the hits of a request its id. A request without hits has a hit that counts nothing.
func (w *worker) identify(r *request.Request, first int) {
	if w.config.Dedupe.By == "" {
		return
	}
	c := w.chunk
	if first == len(c.hits) {
		c.hits = append(c.hits, hit{at: r.UnixMilli, keyEnd: uint32(len(c.keys)), none: true})
	}
	h := &c.hits[first]
	h.begins = true
	if value := w.ids.Of(r); value != "" {
		h.id = max(1, maphash.String(hashSeed, value))
	}
}
