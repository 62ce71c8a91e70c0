package main

import (
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/rogpeppe/go-internal/testscript"
)

// aggregator is for scripts: two aggregators share the keys; $AGG2 counts one of them, and both answer /v1/top.
func runAggregators(ts *testscript.TestScript, _ bool, _ []string) {
	says := func(key, top string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			query := r.URL.Query()
			switch {
			case r.URL.Path == "/v1/top" && query.Get("rule") == "idle":
				io.WriteString(w, "[]")
			case r.URL.Path == "/v1/top":
				io.WriteString(w, top)
			case query.Get("rule") == "sign-in", query.Get("rule") == "sign-up":
				http.Error(w, "no key of it", http.StatusBadRequest)
			case query.Get("key") != "203.0.113.7" && key != "":
				io.WriteString(w, `{"rule":"per-ip","key":"198.51.100.1","where":"none","at":"2026-03-03T08:00:07.5Z","limits":[]}`)
			case key == "":
				http.Error(w, "partition 3, where this key is counted, is another aggregator's", http.StatusNotFound)
			default:
				io.WriteString(w, key)
			}
		}))
		ts.Defer(server.Close)
		return server.URL
	}
	ts.Setenv("AGG1", says("", `[{"rule":"per-ip","key":"192.0.2.1","limit":"10/min","count":9,"share":0.9}]`))
	ts.Setenv("AGG2", says(`{"rule":"per-ip","key":"203.0.113.7","partition":3,"where":"hot","at":"2026-03-03T08:00:07.5Z","newest":"2026-03-03T08:00:07Z",
		"limits":[{"limit":"10/min","count":11,"clears":"2026-03-03T08:01:07Z"},{"limit":"100/hour","count":0,"clears":null}],
		"block":{"id":"x","from":"2026-03-03T08:00:07Z","until":"2026-03-03T08:10:07Z","limit":"10/min","count":11,"level":1,"blocked":true,"ended":null}}`,
		`[{"rule":"per-ip","key":"203.0.113.7","limit":"10/min","count":11,"share":1.1}]`))
}
