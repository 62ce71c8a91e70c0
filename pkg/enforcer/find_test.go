package enforcer

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"weir/pkg/blocklist"
)

// A search that matches everything is answered a page at a time; the pages together have every entry once.
func TestFindIsPaged(t *testing.T) {
	var entries []*blocklist.Entry
	for i := range 2500 {
		entries = append(entries, ofIP(fmt.Sprintf("198.51.%d.%d", i/250, i%250)))
	}
	entries = append(entries, verdict("tenant", "acme", map[string]string{"tenant": "acme"}), ofIP("2001:db8::/64"))
	r := start(t, list(t, entries...), func(c *Config) { c.Keys = nil })
	for _, test := range []struct {
		query        string
		pages, finds int
	}{
		{"key=0.0.0.0/0", 3, 2500}, {"key=0.0.0.0/0&limit=2500", 1, 2500}, {"key=0.0.0.0/0&limit=2499", 2, 2500}, {"key=198.51.3.0/24&limit=7", 36, 250},
		{"key=::/0", 1, 1}, {"key=0.0.0.0/0&rule=tenant", 1, 0}, {"key=acme&rule=tenant", 1, 1}, {"key=198.51.0.1", 1, 1},
	} {
		seen, pages := map[string]bool{}, 0
		for after := ""; ; pages++ {
			var page found
			r.get("/v1/find?"+test.query+after).read(t, &page)
			if len(page.Entries) > maxFound {
				t.Errorf("%s: a page of %d", test.query, len(page.Entries))
			}
			for _, e := range page.Entries {
				if seen[e.Key] {
					t.Errorf("%s: %s is there twice", test.query, e.Key)
				}
				seen[e.Key] = true
			}
			if page.Next == "" {
				pages++
				break
			}
			after = "&after=" + url.QueryEscape(page.Next)
		}
		if pages != test.pages || len(seen) != test.finds {
			t.Errorf("%s: %d in %d pages, want %d in %d", test.query, len(seen), pages, test.finds, test.pages)
		}
	}
	for query, says := range map[string]string{
		"key=x&limit=0": "limit is a number", "key=x&limit=10001": "limit is a number", "key=x&limit=": "limit is empty", "key=x&after=%20": "value of next", "key=": "the key is missing",
	} {
		if got := r.get("/v1/find?" + query); got.status != 400 || !strings.Contains(got.body, says) {
			t.Errorf("%s: %d %s", query, got.status, got.body)
		}
	}
}

// However many searches there are, only a few run at the same time.
func TestFindingIsBounded(t *testing.T) {
	r := start(t, list(t), func(c *Config) { c.Keys = nil })
	leave := takeAll(t, r.finding)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	request := httptest.NewRequest(http.MethodGet, "http://localhost/v1/find?key=0.0.0.0/0", http.NoBody).WithContext(gone)
	if r.ServeHTTP(w, request); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d, %v", w.Code, w.Header())
	}
	leave()
	if got := r.get("/v1/find?key=203.0.113.7"); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
}
