package enforcer

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"weir/internal/limited"
)

// ServeHTTP answers one request.
func (e *Enforcer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	many := (r.ContentLength != 0 || !asksCheck(r.URL.Path)) && hasManyFields(r.Header)
	switch {
	case many: // it takes much memory, and so must not last
		w.Header().Set("Connection", "close")
		_ = http.NewResponseController(w).SetReadDeadline(time.Now())
	case r.ContentLength != 0:
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyPatience)) // the writer of a test has no deadline
	}
	if asksCheck(r.URL.Path) {
		// No check reads the body. On a connection that stays, the server would wait for it before it answers, and would
		// take the next check for the body that an edge announces and does not send.
		if r.ContentLength != 0 && r.ProtoMajor == 1 {
			w.Header().Set("Connection", "close")
		}
		e.check(w, r) // no check of its origin: it carries the original request's headers, with the Host of a site and the Origin of its pages
		return
	}

	if many {
		writeProblem(w, problemf(http.StatusRequestHeaderFieldsTooLarge, "the header has more than %d fields", maxFields))
		return
	}
	w = limited.Answer(w)
	if err := e.pages.Check(r); err != nil {
		writeProblem(w, problemf(http.StatusForbidden, "%s", err))
		return
	}

	e.mux.ServeHTTP(w, r)
}

// maxFields is how many fields the header of a request may have that takes longer than a check.
const maxFields = 1000

func hasManyFields(header http.Header) bool {
	fields := 0
	for _, values := range header {
		fields += len(values)
	}
	return fields > maxFields
}

// routes returns all paths except those of checks.
func (e *Enforcer) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for path, methods := range map[string]map[string]func(http.ResponseWriter, *http.Request) error{
		"/v1/blocklist": {http.MethodGet: e.blocklist},
		"/v1/evidence":  {http.MethodGet: e.evidence},
		"/v1/find":      {http.MethodGet: e.find},
		"/v1/events":    {http.MethodGet: e.events},
		"/v1/numbers":   {http.MethodGet: e.numbers},
		"/v1/whatif":    {http.MethodGet: e.whatIf},
		"/v1/blocks":    {http.MethodPost: e.blocks, http.MethodDelete: e.unblock},
		"/v1/take":      {http.MethodPost: e.takes},
		"/v1/settle":    {http.MethodPost: e.settles},
		"/v1/keys":      {http.MethodGet: e.countsOf},
		"/v1/top":       {http.MethodGet: e.top},
		"/v1/allows":    {http.MethodGet: e.allows, http.MethodPost: e.allow, http.MethodDelete: e.disallow},
		"/v1/guard":     {http.MethodGet: e.guards, http.MethodPost: e.confirmGuard, http.MethodDelete: e.endConfirmation},
		"/v1/pause":     {http.MethodGet: e.paused, http.MethodPost: e.pause, http.MethodDelete: e.resume},
	} {
		mux.HandleFunc(path, byMethod(methods))
	}

	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeProblem(w, problemf(http.StatusNotFound, "there is nothing at %s", r.URL.Path))
	})
	return mux
}

// byMethod answers errors as problems. HEAD is GET.
func byMethod(methods map[string]func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	allowed := strings.Join(slices.Sorted(maps.Keys(methods)), ", ")
	return func(w http.ResponseWriter, r *http.Request) {
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		handle := methods[method]
		if handle == nil {
			w.Header().Set("Allow", allowed)
			writeProblem(w, problemf(http.StatusMethodNotAllowed, "%s is not supported here; use %s", r.Method, allowed))
			return
		}
		if err := handle(w, r); err != nil {
			writeProblem(w, err)
		}
	}
}
