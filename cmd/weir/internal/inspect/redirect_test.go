package inspect

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"

	"weir/cmd/internal/config"
)

// A question to an aggregator does not follow a redirect to another host with the tool's key.
func TestTheKeyForAggregatorsStaysWithItsHost(t *testing.T) {
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

	at, err := url.Parse(first.URL)
	if err != nil {
		t.Fatal(err)
	}
	settings := config.Default()
	settings.Aggregator.Listen = at.Host
	counting, err := (&aggregatorFlags{}).open(settings)
	if err != nil {
		t.Fatal(err)
	}
	counting.key = "secret"
	if err := counting.ask(t.Context(), first.URL, "/v1/keys", nil, &struct{}{}); err == nil || leaked.Load() > 0 {
		t.Errorf("%v; the key went to another host %d times", err, leaked.Load())
	}
}
