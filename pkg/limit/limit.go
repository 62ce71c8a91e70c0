// Package limit limits how often something happens for each key, in the memory of this process: requests of a client to a
// server (Middleware), requests to other servers (Transport), or anything else (Take).
//
//	limiter, err := limit.New(limit.Config{Limits: []limit.Limit{{10, time.Minute}, {100, time.Hour}}})
//	…
//	http.ListenAndServe(address, limiter.Middleware(handler, limit.ByAddress))
//
// Limits are exact: with the algorithm sliding, no span of a minute has more than 10 hits. An attempt that is one too many
// counts nothing, so an attempt at Verdict.Again is admitted, if no other comes before. Several limits are one step.
//
// A Limiter has a bounded number of keys; a key beyond takes the place of one that was not used for long. Of a key of more
// than 256 bytes it keeps the beginning and a hash. It starts no goroutine, and any number of goroutines may use it.
//
// Other programs may import this package (docs/go.md).
package limit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"weir/internal/address"
	"weir/internal/keytext"
	"weir/pkg/inline"
	"weir/pkg/window"
)

// A Limit allows Hits hits Per duration, of whole milliseconds.
type Limit struct {
	Hits int64
	Per  time.Duration
}

// A Config configures a Limiter.
type Config struct {
	Limits    []Limit // at least one
	Algorithm string  // sliding unless given; or fixed, counter, token, uniform, leaky (docs/rules.md)
	Burst     int64   // token: the bucket's size, the limit unless given; uniform: how many may come early
	Keys      int     // at most so many are known; 1,000,000 unless given

	Now func() time.Time // nil: the wall clock
}

// A Limiter limits keys.
type Limiter struct {
	memory *inline.Memory
	rule   *inline.Rule
	limits []Limit
	policy string // for the header RateLimit-Policy
	spare  sync.Pool
}

// memoryOf is what one attempt needs.
type memoryOf struct {
	verdict inline.Verdict
	wants   [1]inline.Want
}

// exactHits is the largest limit whose hits are all remembered. Larger ones are up to 1/64 of their time generous.
const exactHits = 1 << 16

// New makes a Limiter, or returns all that is wrong with a Config.
func New(c Config) (*Limiter, error) {
	if c.Algorithm == "" {
		c.Algorithm = window.Sliding.String()
	}
	algorithm, err := window.ParseAlgorithm(c.Algorithm)
	if err != nil {
		return nil, err
	}

	l := &Limiter{limits: c.Limits, memory: inline.New(inline.Config{Keys: c.Keys, Now: c.Now})}
	l.spare.New = func() any { return &memoryOf{} }
	of := window.Config{Algorithm: algorithm, Burst: c.Burst, Block: window.Block{For: time.Minute}, Remember: window.DefaultRemember}
	for i, limit := range c.Limits {
		of.Limits = append(of.Limits, window.Limit(limit))
		if limit.Hits <= exactHits {
			of.Remember = max(of.Remember, int(limit.Hits))
		}
		if i > 0 {
			l.policy += ", "
		}
		l.policy += fmt.Sprintf(`"%s";q=%d;w=%d`, limit, limit.Hits, int64(math.Ceil(limit.Per.Seconds())))
	}

	policy, err := window.New(of)
	l.rule = &inline.Rule{Policy: policy}
	return l, err
}

// String is a limit as people write it: 10/1m0s.
func (l Limit) String() string { return fmt.Sprintf("%d/%s", l.Hits, l.Per) }

// A Verdict is the answer to an attempt.
type Verdict struct {
	Admitted  bool
	Attempt   string    // for Settle; empty when nothing was counted
	Limit     Limit     // the one that refuses, or has the fewest hits left
	Remaining int64     // so many hits it admits now
	Again     time.Time // when the next attempt of this cost is admitted, if none comes before; zero if never
}

// Take admits cost hits of a key and counts them, or counts nothing. A cost of 0 asks what remains.
func (l *Limiter) Take(key string, cost int64) Verdict {
	m := l.spare.Get().(*memoryOf)
	defer l.spare.Put(m)
	m.wants[0] = inline.Want{Rule: l.rule, Key: keytext.Cut(append(m.wants[0].Key[:0], key...), 0), Cost: cost}
	_ = l.memory.Take(context.Background(), &m.verdict, m.wants[:]) // never fails
	taken := &m.verdict.Taken[0]
	v := Verdict{Admitted: taken.Admitted, Limit: l.limits[taken.Limit], Remaining: taken.Remaining}
	if taken.Again != window.Never {
		v.Again = time.UnixMilli(taken.Again)
	}
	if m.verdict.Attempt != (inline.ID{}) {
		v.Attempt = m.verdict.Attempt.String()
	}
	return v
}

// ErrUnknown reports an attempt that cannot be settled: it is older than ten minutes, or was refused.
var ErrUnknown = errors.New("no such attempt")

// Settle sets what an attempt has cost: less is admitted again, more counts. It may be called again.
func (l *Limiter) Settle(attempt string, cost int64) error {
	id, err := inline.ParseID(attempt)
	if err == nil {
		err = l.memory.Settle(context.Background(), id, cost)
	}
	if err != nil {
		return fmt.Errorf("settling %q: %w", attempt, ErrUnknown)
	}
	return nil
}

// ByAddress makes a key of the address that the connection comes from: of IPv6 the /64, which one client has, or the IPv4
// address of a client behind a translator, as NAT64. Behind a proxy that is the proxy's: write your own function there.
func ByAddress(r *http.Request) string {
	at, _ := netip.ParseAddrPort(r.RemoteAddr)
	ip := address.Plain(at.Addr())
	if ip.Is6() {
		prefix, _ := ip.Prefix(64) // possible for each address
		return prefix.String()
	}
	return ip.String()
}

// Middleware answers 429 to requests that are one too many for their key, and passes on all others. Requests with an
// empty key are not limited. Both answers describe the limits in RateLimit and RateLimit-Policy.
func (l *Limiter) Middleware(next http.Handler, key func(*http.Request) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := key(r)
		if who == "" {
			next.ServeHTTP(w, r)
			return
		}

		v := l.Take(who, 1)
		seconds := strconv.FormatInt(max(1, int64(math.Ceil(time.Until(v.Again).Seconds()))), 10)
		limit := fmt.Sprintf(`"%s";r=%d`, v.Limit, v.Remaining)
		if v.Remaining == 0 {
			limit += ";t=" + seconds
		}
		w.Header().Set("RateLimit-Policy", l.policy)
		w.Header().Set("RateLimit", limit)
		if v.Admitted {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Retry-After", seconds)
		http.Error(w, "too many requests", http.StatusTooManyRequests)
	})
}
