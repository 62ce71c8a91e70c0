package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// An enforcer that has looked at some keys only, or cannot read its store, is not taken for one that has shown all.
func TestTopOfAStore(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	aggregator := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "[]") }))
	defer aggregator.Close()
	for _, one := range []struct {
		partial   string
		status    int
		answer    string
		exit      int
		out, errs string
	}{
		{"", 200, `[{"rule":"quota","key":"alice","limit":"10/min","count":9,"share":0.9}]`, 0, "quota  alice  9", ""},
		{"true", 200, `[{"rule":"quota","key":"alice","limit":"10/min","count":9,"share":0.9}]`, 0, "quota  alice  9", "more keys than could be looked at"},
		{"", 501, `{"detail":"cannot be searched"}`, 0, "No key uses", "cannot be searched"},
		{"", 503, `{"detail":"cannot be read"}`, 1, "", "cannot be read"},
	} {
		enforcer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/top" {
				io.WriteString(w, `{"entries":[]}`)
				return
			}
			if one.partial != "" {
				w.Header().Set("Weir-Partial", one.partial)
			}
			w.WriteHeader(one.status)
			io.WriteString(w, one.answer)
		}))
		var out, errs bytes.Buffer
		code := run([]string{"weir", "top", "--aggregator", aggregator.URL, "--url", enforcer.URL}, nil, &out, &errs)
		enforcer.Close()
		if code != one.exit || !strings.Contains(out.String(), one.out) || !strings.Contains(errs.String(), one.errs) || one.errs == "" && errs.Len() > 0 {
			t.Errorf("%d %s: %d\n%s\n%s", one.status, one.partial, code, &out, &errs)
		}
	}
}
