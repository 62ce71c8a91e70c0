package crowdsec

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"
)

const (
	// maxBouncers is how many bouncers are remembered, and keepBouncers for how long after their last request.
	maxBouncers  = 10_000
	keepBouncers = 7 * 24 * time.Hour
)

// A bouncer is identified by its key, its address, its program, and its filter. So two of different kinds that share a
// key and an address, as behind one translator or in one pod, do not take each other's changes.
type bouncer struct {
	Key     string `json:"key"` // its name
	Address string `json:"address"`
	Asks    uint64 `json:"asks,omitempty"` // a hash of its user agent and its filter
}

// A cursor is the last revision that a bouncer got.
type cursor struct {
	Revision int64 `json:"revision"`
	At       int64 `json:"at"` // time of its last request
	// Two means that it was found to be several programs; then Revision is the one of the slowest.
	Two bool `json:"two,omitempty"`
}

// bouncers are those with recent requests.
type bouncers map[bouncer]cursor

// bouncerOf returns the bouncer of a request with a key and a filter.
func bouncerOf(key string, r *http.Request, f *filter) bouncer {
	hash := xxhash.New()
	fmt.Fprintf(hash, "%q %q", r.UserAgent(), [][]string{slices.Sorted(slices.Values(f.scopes)), {f.value, f.types}, f.origins, f.containing, f.lacking})
	fmt.Fprintf(hash, " %v %v %v", f.within, f.contains, f.all)
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = "" // a unix socket
	}
	return bouncer{key, host, hash.Sum64()}
}

// set stores a bouncer's cursor. When there is no room, a hundredth of the bouncers is forgotten: those with the oldest
// requests.
func (b bouncers) set(who bouncer, at cursor) {
	if _, known := b[who]; !known && len(b) >= maxBouncers {
		oldest := slices.SortedFunc(maps.Keys(b), func(x, y bouncer) int { return cmp.Compare(b[x].At, b[y].At) })
		for _, x := range oldest[:maxBouncers/100] {
			delete(b, x)
		}
	}
	b[who] = at
}

// forget drops bouncers without a request for a long time.
func (b bouncers) forget(nowMilli int64) {
	maps.DeleteFunc(b, func(_ bouncer, at cursor) bool { return at.At < nowMilli-keepBouncers.Milliseconds() })
}
