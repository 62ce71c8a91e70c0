package limit

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Transport sends requests to servers no faster than a Limiter admits them, and than the servers ask for. A request that
// has to wait waits, for at most Patience.
//
// After an answer 429 or 503 with Retry-After, or any answer whose RateLimit says that nothing remains, further requests of
// the same key wait. The answer itself is returned as it is: nothing is sent again.
type Transport struct {
	Limiter  *Limiter                   // nil: only the servers' answers count
	Base     http.RoundTripper          // nil: http.DefaultTransport
	Key      func(*http.Request) string // nil: the host
	Patience time.Duration              // one minute unless given

	mu    sync.Mutex
	pause map[string]time.Time // until when the servers want no requests, by key
}

// A WaitError reports that a request was not sent, because it would have had to wait for too long.
type WaitError struct {
	Key   string
	Until time.Time // zero: for ever
}

func (w *WaitError) Error() string {
	if w.Until.IsZero() {
		return fmt.Sprintf("limit: no request of %s is ever admitted", w.Key)
	}
	return fmt.Sprintf("limit: no request of %s is admitted before %s", w.Key, w.Until.UTC().Format(time.RFC3339))
}

// RoundTrip sends a request when it is admitted.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	key := r.URL.Host
	if t.Key != nil {
		key = t.Key(r)
	}
	if err := t.await(r.Context(), key); err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, err
	}

	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	answer, err := base.RoundTrip(r)
	if err == nil {
		t.note(key, answer)
	}
	return answer, err
}

// await returns when a request is admitted.
func (t *Transport) await(ctx context.Context, key string) error {
	latest := time.Now().Add(cmp.Or(t.Patience, time.Minute))
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(latest) {
		latest = deadline
	}
	for {
		until := t.pausedUntil(key)
		if !time.Now().Before(until) {
			if t.Limiter == nil {
				return ctx.Err()
			}
			v := t.Limiter.Take(key, 1)
			if v.Admitted {
				return ctx.Err()
			}
			until = v.Again
		}
		if until.IsZero() || until.After(latest) {
			return &WaitError{key, until}
		}

		// A little longer than until, for what is admitted is counted in milliseconds.
		timer := time.NewTimer(time.Until(until) + time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

func (t *Transport) pausedUntil(key string) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pause[key]
}

// maxPauses is how many keys are remembered whose servers want no requests.
const maxPauses = 10_000

// note remembers until when a server wants no further requests.
func (t *Transport) note(key string, answer *http.Response) {
	now := time.Now()
	lasts := exhausted(strings.Join(answer.Header.Values("RateLimit"), ","))
	if answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode == http.StatusServiceUnavailable {
		lasts = max(lasts, retryAfter(answer.Header.Get("Retry-After"), now))
	}
	if lasts <= 0 {
		return
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pause == nil {
		t.pause = map[string]time.Time{}
	}
	if len(t.pause) >= maxPauses {
		for other, until := range t.pause {
			if until.Before(now) || len(t.pause) >= maxPauses {
				delete(t.pause, other)
			}
		}
	}
	if until := now.Add(lasts); until.After(t.pause[key]) {
		t.pause[key] = until
	}
}

// longest is the longest pause that a server can ask for.
const longest = 24 * time.Hour

// retryAfter reads the header Retry-After: seconds, or a date.
func retryAfter(text string, now time.Time) time.Duration {
	if date, err := http.ParseTime(text); err == nil {
		return min(date.Sub(now), longest)
	}
	return seconds(text)
}

func seconds(text string) time.Duration {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0
	}
	return min(time.Duration(n)*time.Second, longest)
}

// exhausted reads the header RateLimit of the IETF's draft, "name";r=0;t=30: for how long the longest exhausted limit has
// nothing left; 0 where each has something.
func exhausted(text string) (lasts time.Duration) {
	for limit := range strings.SplitSeq(text, ",") {
		remaining, reset := "", ""
		for parameter := range strings.SplitSeq(limit, ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(parameter), "=")
			switch name {
			case "r":
				remaining = value
			case "t":
				reset = value
			}
		}
		if remaining == "0" {
			lasts = max(lasts, seconds(reset))
		}
	}
	return lasts
}
