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
	// maxBouncers is how many bouncers are remembered, and keepBouncers for how long after they last came.
	maxBouncers  = 10_000
	keepBouncers = 7 * 24 * time.Hour
)

// A bouncer is known by its key, its address, the program that it is, and what it asks for. So two of different kinds that
// share a key and an address, as behind one translator or in one pod, do not take each other's changes.
type bouncer struct {
	Key     string `json:"key"` // its name
	Address string `json:"address"`
	Asks    uint64 `json:"asks,omitempty"` // a hash of its user agent and its filter
}

// A cursor is how far a bouncer has got.
type cursor struct {
	Revision int64 `json:"revision"`
	At       int64 `json:"at"` // when it came
	// Two says that it was found to be several programs; then Revision is that of the one behind the others.
	Two bool `json:"two,omitempty"`
}

// bouncers are those that came lately.
type bouncers map[bouncer]cursor

// bouncerOf is the bouncer that asks with a key, for what a filter says.
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

// set remembers how far a bouncer has got. When there is no room, a hundredth of them is forgotten: those that came longest
// ago.
func (b bouncers) set(who bouncer, at cursor) {
	if _, known := b[who]; !known && len(b) >= maxBouncers {
		oldest := slices.SortedFunc(maps.Keys(b), func(x, y bouncer) int { return cmp.Compare(b[x].At, b[y].At) })
		for _, x := range oldest[:maxBouncers/100] {
			delete(b, x)
		}
	}
	b[who] = at
}

// forget drops those that have not come for long.
func (b bouncers) forget(nowMilli int64) {
	maps.DeleteFunc(b, func(_ bouncer, at cursor) bool { return at.At < nowMilli-keepBouncers.Milliseconds() })
}
