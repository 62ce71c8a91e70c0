package crowdsec

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// FuzzQuery: for any query and any user on the list,
//   - the answer is JSON of the requested kind, or an error with a message;
//   - it contains the user unchanged.
func FuzzQuery(f *testing.F) {
	for _, query := range []string{"ip=203.0.113.7", "startup=true&scopes=ip,username", "range=203.0.113.0/24&contains=false", "limit=1&offset=2&id_gt=0",
		"scenarios_containing=a,&scenarios_not_containing=,", "value=%00&dedup=false", "ip=::ffff:1.2.3.4%25x&ip=1", "limit=99999999999999999999"} {
		f.Add(query, `al"ice`+"\n")
	}
	s := newSite(f)
	f.Fuzz(func(t *testing.T, query, user string) {
		clear(s.list.entries)
		s.list.block("per-ip", "ip", "203.0.113.7", s.after(time.Hour))
		s.list.block("per-user", "user", user, s.after(time.Hour))
		s.now = s.now.Add(time.Second)
		for _, path := range []string{"/v1/decisions", "/v1/decisions/stream"} {
			r := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: path, RawQuery: query}, Header: http.Header{"X-Api-Key": {"key-of-edge"}}}
			w := httptest.NewRecorder()
			s.mux.ServeHTTP(w, r)
			if !json.Valid(w.Body.Bytes()) || (w.Code != http.StatusOK) != strings.HasPrefix(w.Body.String(), `{"message":"`) {
				t.Fatalf("%s?%s: %d %s", path, query, w.Code, w.Body)
			}
		}
		for _, d := range s.poll(t, "?startup=true&scopes=username").New {
			if *d.Value != user {
				t.Fatalf("the user %q is %q", user, *d.Value)
			}
		}
	})
}
