package limit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/pkg/limit"
)

func ExampleLimiter() {
	limiter, err := limit.New(limit.Config{Limits: []limit.Limit{{Hits: 2, Per: time.Minute}, {Hits: 100, Per: time.Hour}}})
	if err != nil {
		panic(err)
	}
	for range 3 {
		v := limiter.Take("alice", 1)
		fmt.Println(v.Admitted, v.Limit, v.Remaining)
	}
	// Output:
	// true 2/1m0s 1
	// true 2/1m0s 0
	// false 2/1m0s 0
}

func newLimiter(t *testing.T, c limit.Config) *limit.Limiter {
	t.Helper()
	l, err := limit.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestTakeAndSettle(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_000)
	for _, algorithm := range []string{"", "sliding", "fixed", "token", "leaky"} {
		l := newLimiter(t, limit.Config{Limits: []limit.Limit{{Hits: 10, Per: time.Second}}, Algorithm: algorithm, Now: func() time.Time { return at }})
		v := l.Take("a", 8)
		if !v.Admitted || v.Remaining != 2 || v.Attempt == "" || !v.Again.After(at) {
			t.Errorf("%s: %+v", algorithm, v)
		}
		if v := l.Take("a", 3); v.Admitted || v.Attempt != "" {
			t.Errorf("%s: 3 of 2: %+v", algorithm, v)
		}
		if v := l.Take("a", 11); v.Admitted || !v.Again.IsZero() {
			t.Errorf("%s: 11 of 10: %+v", algorithm, v)
		}
		if err := l.Settle(v.Attempt, 1); err != nil {
			t.Error(err)
		}
		if v := l.Take("a", 9); !v.Admitted || v.Remaining != 0 {
			t.Errorf("%s: after it was settled to 1: %+v", algorithm, v)
		}
		for _, attempt := range []string{"", "x", strings.Repeat("0", 32)} {
			if err := l.Settle(attempt, 1); !errors.Is(err, limit.ErrUnknown) {
				t.Errorf("%q: %v", attempt, err)
			}
		}
	}
	for _, c := range []limit.Config{{}, {Limits: []limit.Limit{{0, time.Second}}}, {Limits: []limit.Limit{{1, time.Microsecond}}}, {Limits: []limit.Limit{{1, time.Second}}, Algorithm: "none"}} {
		if _, err := limit.New(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

func TestMiddleware(t *testing.T) {
	l := newLimiter(t, limit.Config{Limits: []limit.Limit{{Hits: 2, Per: time.Minute}}})
	handler := l.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), limit.ByAddress)
	ask := func(from string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.RemoteAddr = from
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	for _, test := range []struct {
		from, limit string
		status      int
	}{
		{"203.0.113.7:1", `"2/1m0s";r=1`, 200},
		{"203.0.113.7:2", `"2/1m0s";r=0;t=60`, 200},
		{"203.0.113.7:3", `"2/1m0s";r=0;t=60`, 429},
		{"[::ffff:203.0.113.7]:3", `"2/1m0s";r=0;t=60`, 429},
		{"[2001:db8::1]:1", `"2/1m0s";r=1`, 200},
		{"[2001:db8::2]:1", `"2/1m0s";r=0;t=60`, 200},
		{"[2001:db8::3]:1", `"2/1m0s";r=0;t=60`, 429},
		{"203.0.113.8:3", `"2/1m0s";r=1`, 200},
		{"[64:ff9b::203.0.113.8]:1", `"2/1m0s";r=0;t=60`, 200}, // behind NAT64
		{"[2002:cb00:7108::1]:1", `"2/1m0s";r=0;t=60`, 429},
		{"[64:ff9b::203.0.113.9]:1", `"2/1m0s";r=1`, 200},
	} {
		w := ask(test.from)
		if w.Code != test.status || w.Header().Get("RateLimit") != test.limit && !strings.HasSuffix(w.Header().Get("RateLimit"), "t=59") ||
			w.Header().Get("RateLimit-Policy") != `"2/1m0s";q=2;w=60` || (w.Header().Get("Retry-After") != "") != (w.Code == 429) {
			t.Errorf("%s: %d %v", test.from, w.Code, w.Header())
		}
	}
	free := l.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), func(*http.Request) string { return "" })
	for range 3 {
		w := httptest.NewRecorder()
		if free.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody)); w.Code != 200 {
			t.Errorf("without a key: %d", w.Code)
		}
	}
}

// A client that chooses its key, as with a header, must not choose how much memory it takes.
func TestLongKeysTakeLittleMemory(t *testing.T) {
	l := newLimiter(t, limit.Config{Limits: []limit.Limit{{Hits: 1, Per: time.Hour}}})
	long := strings.Repeat("k", 1<<20)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 100 {
		if v := l.Take(fmt.Sprint(long, i), 1); !v.Admitted {
			t.Errorf("%d: it counts as another key", i)
		}
	}
	runtime.GC()
	runtime.GC() // what a pool had is gone after the second
	runtime.ReadMemStats(&after)
	if took := int64(after.HeapAlloc) - int64(before.HeapAlloc); took > 10<<20 {
		t.Errorf("100 keys take %d MiB", took>>20)
	}
	if v := l.Take(long+"7", 1); v.Admitted {
		t.Error("a key that was cut has no count")
	}
}

// However many goroutines send, all requests arrive, and no faster than the limits allow.
func TestTransportKeepsWithinLimits(t *testing.T) {
	const limitHits, per = 20, 200 * time.Millisecond
	var served atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))
	defer server.Close()
	client := &http.Client{Transport: &limit.Transport{Limiter: newLimiter(t, limit.Config{Limits: []limit.Limit{{Hits: limitHits, Per: per}}})}}
	defer client.CloseIdleConnections()
	begun := time.Now()
	var sending sync.WaitGroup
	for range 8 {
		sending.Go(func() {
			for range 15 {
				answer, err := client.Get(server.URL)
				if err != nil {
					t.Error(err)
					return
				}
				answer.Body.Close()
			}
		})
	}
	sending.Wait()
	if took := time.Since(begun); served.Load() != 120 || took < 5*per {
		t.Errorf("%d were served within %s", served.Load(), took)
	}
}

func TestTransportHonoursTheServer(t *testing.T) {
	var asked atomic.Int64
	says := func(http.ResponseWriter) {}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		says(w)
	}))
	defer server.Close()
	refuses := func(status int, name, value string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set(name, value)
			w.WriteHeader(status)
		}
	}
	for name, test := range map[string]struct {
		says  func(http.ResponseWriter)
		waits time.Duration
	}{
		"429":                     {refuses(429, "Retry-After", "30"), 30 * time.Second},
		"503":                     {refuses(503, "Retry-After", "30"), 30 * time.Second},
		"a date":                  {refuses(429, "Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)), time.Hour},
		"a very long time":        {refuses(429, "Retry-After", "4000000000"), 24 * time.Hour},
		"no time":                 {refuses(429, "Retry-After", "soon"), 0},
		"more than a number":      {refuses(429, "Retry-After", "99999999999999999999"), 0},
		"a time that is over":     {refuses(429, "Retry-After", "Mon, 02 Jan 2006 15:04:05 GMT"), 0},
		"served, nothing remains": {refuses(200, "RateLimit", `"a";r=7;t=5, "b";r=0;t=40`), 40 * time.Second},
		"several of one name": {func(w http.ResponseWriter) {
			w.Header()["RateLimit"] = []string{`"a";r=7;t=5`, `"b";r=0;t=40`}
		}, 40 * time.Second},
		"served, some remain": {refuses(200, "RateLimit", `"a";r=7;t=50`), 0},
		"served":              {refuses(200, "Retry-After", "30"), 0},
	} {
		says = test.says
		asked.Store(0)
		client := &http.Client{Transport: &limit.Transport{Patience: time.Millisecond}}
		answer, err := client.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		answer, err = client.Post(server.URL, "text/plain", strings.NewReader("body"))
		wait := (*limit.WaitError)(nil)
		switch {
		case test.waits == 0 && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.waits == 0:
			answer.Body.Close()
		case !errors.As(err, &wait) || asked.Load() != 1:
			t.Errorf("%s: %v, and it was asked %d times", name, err, asked.Load())
		default:
			if left := time.Until(wait.Until); left > test.waits || left < test.waits-20*time.Second {
				t.Errorf("%s: it waits %s, want %s", name, left, test.waits)
			}
		}
		client.CloseIdleConnections()
	}
}

func TestTransportWaitsNoLongerThanItsContext(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	l := newLimiter(t, limit.Config{Limits: []limit.Limit{{Hits: 1, Per: 30 * time.Second}}})
	client := &http.Client{Transport: &limit.Transport{Limiter: l, Key: func(*http.Request) string { return "all" }}}
	defer client.CloseIdleConnections()
	send := func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err == nil {
			answer.Body.Close()
		}
		return err
	}
	if err := send(t.Context()); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err, wait := send(short), (*limit.WaitError)(nil); !errors.As(err, &wait) || wait.Key != "all" {
		t.Errorf("with five seconds: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, end)
	if err := send(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("ended while it waits: %v", err)
	}
}
