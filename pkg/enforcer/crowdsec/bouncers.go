package crowdsec

import (
	"cmp"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"
)

const (
	// maxBouncers is how many bouncers are remembered, and keepBouncers for how long after they last came.
	maxBouncers  = 10_000
	keepBouncers = 7 * 24 * time.Hour
)

// A bouncer is known by its key and its address.
type bouncer struct {
	Key     string `json:"key"` // its name
	Address string `json:"address"`
}

// A cursor is how far a bouncer has got.
type cursor struct {
	Revision int64 `json:"revision"`
	At       int64 `json:"at"` // when it came
}

// bouncers are those that came lately.
type bouncers map[bouncer]cursor

// bouncerOf is whoever asks with a key.
func bouncerOf(key string, r *http.Request) bouncer {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = "" // a unix socket
	}
	return bouncer{key, host}
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
