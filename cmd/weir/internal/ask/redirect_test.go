package ask

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// No request follows a redirect to another host with the tool's key.
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

	enforcer, err := newEnforcer([]place{{url: first.URL, named: "--url"}}, "secret", &clientFile{})
	if err != nil {
		t.Fatal(err)
	}
	defer enforcer.Close()
	for name, ask := range map[string]func() error{
		"an enforcer": func() error {
			_, err := enforcer.Ask(t.Context(), http.MethodGet, "/v1/find", nil, nil, &struct{}{})
			return err
		},
		"an order": func() error {
			_, err := enforcer.Ask(t.Context(), http.MethodPost, "/v1/blocks", nil, map[string]string{"key": "x"}, &struct{}{})
			return err
		},
		"a part's status": func() error {
			_, err := Status(t.Context(), first.URL+"/status", "secret")
			return err
		},
	} {
		if err := ask(); err == nil || leaked.Load() > 0 {
			t.Errorf("asking %s: %v; the key went to another host %d times", name, err, leaked.Swap(0))
		}
	}
}
