package replay

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// Lines do not follow a redirect to another host with the tool's key.
func TestTheKeyForLinesStaysWithItsHost(t *testing.T) {
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

	sending := newHTTPSink(first.URL+"/v1/requests", "secret")
	sending.patience = 0
	err := sending.add(t.Context(), []byte("line"))
	if err == nil {
		err = sending.flush(t.Context())
	}
	if err == nil || leaked.Load() > 0 {
		t.Errorf("%v; the key went to another host %d times", err, leaked.Load())
	}
}
