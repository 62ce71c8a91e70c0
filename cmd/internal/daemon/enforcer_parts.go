package daemon

import "net/http"

// partPaths are the questions to parts that the enforcer passes on, with their paths at the part's own address.
var partPaths = map[string]string{"status": "/status", "top": "/v1/top", "keys": "/v1/keys"}

// mountParts adds /v1/parts: the parts of this process answer here too. So people who may open the enforcer's socket need
// no key for the parts next to it.
func (r *RunningEnforcer) mountParts() {
	answer := func(w http.ResponseWriter, q *http.Request) {
		path, known := partPaths[q.PathValue("question")]
		part := r.process.sibling(q.PathValue("part"))
		if !known || part == nil {
			http.Error(w, "this process has no such part, or the part has no such answer", http.StatusNotFound)
			return
		}
		if q.URL.RawQuery != "" {
			path += "?" + q.URL.RawQuery
		}
		status, body, err := part.answerOwn(q.Context(), path)
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}

		w.Header().Set("Content-Type", "application/json")
		if status != http.StatusOK { // other answers are texts
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}
	r.Mount(func(mux *http.ServeMux) {
		mux.Handle("GET /v1/parts/{part}/{question}", r.Guard(http.HandlerFunc(answer)))
	})
}
