package crowdsec

import (
	"net/http"
	"slices"
	"strings"
)

// Handle adds the paths that bouncers ask for.
func (a *API) Handle(mux *http.ServeMux) {
	mux.Handle("/v1/decisions", a.endpoint("decisions", a.decisions, http.MethodGet, http.MethodHead))
	mux.Handle("/v1/decisions/stream", a.endpoint("stream", a.stream, http.MethodGet, http.MethodHead))
	mux.Handle("/v1/usage-metrics", a.endpoint("metrics", a.usage, http.MethodPost))
	mux.HandleFunc("/v1/heartbeat", forMachines)
	mux.HandleFunc("/v1/decisions/", func(w http.ResponseWriter, _ *http.Request) { empty(w, http.StatusNotFound) })
	mux.HandleFunc("/health", health)
}

const jsonType = "application/json; charset=utf-8"

// endpoint checks the method and the key, and counts.
func (a *API) endpoint(name string, next func(http.ResponseWriter, *http.Request, string), methods ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		counted := &counting{ResponseWriter: w, code: http.StatusOK}
		defer func() { a.metrics.count(name, counted.code) }()
		switch {
		case r.Method == http.MethodDelete && name == "decisions":
			forMachines(counted, r)
		case !slices.Contains(methods, r.Method):
			w.Header().Set("Allow", strings.Join(methods, ", "))
			empty(counted, http.StatusMethodNotAllowed)
		default:
			a.admitted(counted, r, next)
		}
	})
}

// admitted passes on a request with a valid key, and refuses others. A HEAD request only checks the key.
func (a *API) admitted(w http.ResponseWriter, r *http.Request, next func(http.ResponseWriter, *http.Request, string)) {
	key, ok := a.Admit(r)
	switch {
	case !ok:
		answerJSON(w, http.StatusForbidden, `{"message":"access forbidden"}`)
	case r.Method == http.MethodHead:
		w.Header().Set("Content-Type", jsonType)
		w.WriteHeader(http.StatusOK)
	default:
		next(w, r, key)
	}
}

// forMachines answers paths for CrowdSec's own machines, which have no keys here.
func forMachines(w http.ResponseWriter, _ *http.Request) {
	answerJSON(w, http.StatusUnauthorized, `{"code":401,"message":"cookie token is empty"}`)
}

func health(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		empty(w, http.StatusMethodNotAllowed)
		return
	}
	answerJSON(w, http.StatusOK, `{"status":"up"}`)
}

// answerJSON answers with JSON, without a line end.
func answerJSON(w http.ResponseWriter, code int, body string) {
	w.Header().Set("Content-Type", jsonType)
	w.WriteHeader(code)
	_, _ = w.Write([]byte(body)) // fails only for a client that has gone
}

func answerError(w http.ResponseWriter, code int, message string) {
	answerJSON(w, code, string(append(appendString([]byte(`{"message":`), message), '}')))
}

func empty(w http.ResponseWriter, code int) {
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(code)
}

// A counting writer remembers the status.
type counting struct {
	http.ResponseWriter
	code int
}

func (c *counting) WriteHeader(code int) {
	c.code = code
	c.ResponseWriter.WriteHeader(code)
}

// Unwrap is for http.ResponseController.
func (c *counting) Unwrap() http.ResponseWriter { return c.ResponseWriter }
