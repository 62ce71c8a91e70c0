package enforcer

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// FuzzOrders: for any request to any path,
//   - nothing panics;
//   - without a key there are no orders, and no answers of 200 that need a key, except for checks;
//   - an order with a key becomes active.
func FuzzOrders(f *testing.F) {
	for _, seed := range []string{`{"target":"203.0.113.8","for":"1h","why":"w"}`, `{"rule":"per-ip","why":"w"}`, `{"target":"user:\u0000","why":"w"}`, "", "[", `{"target":"::/0","until":"2099-01-01T00:00:00Z","why":"w"}`} {
		for _, path := range []string{"/v1/blocks", "/v1/allows", "/v1/pause", "/v1/guard", "/v1/blocks?key=203.0.113.7&why=w", "/v1/check/envoy//x", "/v1/find?key=%00"} {
			f.Add(true, path, seed, "203.0.113.7, unknown")
			f.Add(false, path, seed, "")
		}
	}
	set := list(f, ofIP("203.0.113.7"))
	e, err := Open(Config{Set: set, Ruling: usualRuling(f), Keys: keysFile(f), Refusal: 429, Folder: f.TempDir(), Sinks: &Sinks{}, EventsPartitions: 4, HitsPartitions: 4, Logger: quiet})
	if err != nil {
		f.Fatal(err)
	}
	e.patience = 0
	f.Fuzz(func(t *testing.T, withKey bool, path, body, forwarded string) {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			r, err := http.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
			if err != nil || !strings.HasPrefix(r.URL.Path, "/") {
				return
			}
			r.RequestURI, r.RemoteAddr = r.URL.RequestURI(), "127.0.0.1:1"
			r.Header.Set("X-Forwarded-For", forwarded)
			r.Header.Set("X-Original-Uri", body)
			if withKey {
				r.Header.Set("X-Api-Key", "write")
			}
			before := e.outbox.held.Load()
			w := httptest.NewRecorder()
			e.ServeHTTP(w, r)
			ordered := e.outbox.held.Load() - before
			if !withKey && (ordered > 0 || w.Code < 300 && !asksCheck(r.URL.Path)) {
				t.Fatalf("%s %s without a key: %d %s", method, path, w.Code, w.Body)
			}
			if w.Code == http.StatusCreated && (ordered != 1 || len(set.Pending()) == 0) {
				t.Fatalf("%s %s: %s is not in force", method, path, w.Body)
			}
			drain(e.outbox)
		}
	})
}

// drain acknowledges everything in an outbox, as Kafka would.
func drain(o *outbox) {
	for {
		select {
		case p := <-o.queue:
			o.sent(p)
		default:
			return
		}
	}
}
