package main

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"

	"weir/cmd/internal/config"
)

// No command follows a part's redirect to another host with the tool's key.
func TestTheToolsKeyStaysWithItsHost(t *testing.T) {
	var leaked atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != "" {
			leaked.Add(1)
		}
		w.Write([]byte("{}"))
	}))
	defer other.Close()
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer first.Close()
	at, _ := url.Parse(first.URL)

	enforcer, err := newEnforcerClient([]enforcerPlace{{url: first.URL, named: "--url"}}, "secret", &clientFile{})
	if err != nil {
		t.Fatal(err)
	}
	defer enforcer.close()
	settings := config.Default()
	settings.Aggregator.Listen = at.Host
	counting, err := (&aggregatorFlags{}).open(settings)
	if err != nil {
		t.Fatal(err)
	}
	counting.key = "secret"
	sending := newHTTPSink(first.URL+"/v1/requests", "secret")
	sending.patience = 0
	for name, ask := range map[string]func() error{
		"an enforcer": func() error {
			_, err := enforcer.ask(t.Context(), http.MethodGet, "/v1/find", nil, nil, &struct{}{})
			return err
		},
		"an order": func() error {
			_, err := enforcer.ask(t.Context(), http.MethodPost, "/v1/blocks", nil, map[string]string{"key": "x"}, &struct{}{})
			return err
		},
		"an aggregator": func() error { return counting.ask(t.Context(), first.URL, "/v1/keys", nil, &struct{}{}) },
		"a part's status": func() error {
			_, err := getStatus(t.Context(), first.URL+"/status", "secret")
			return err
		},
		"lines": func() error {
			if err := sending.add(t.Context(), []byte("line")); err != nil {
				return err
			}
			return sending.flush(t.Context())
		},
	} {
		if err := ask(); err == nil || leaked.Load() > 0 {
			t.Errorf("asking %s: %v; the key went to another host %d times", name, err, leaked.Swap(0))
		}
	}
}
