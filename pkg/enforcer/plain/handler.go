package plain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"weir/pkg/blocklist"
	"weir/pkg/enforcer/outright"
	"weir/pkg/rule"
)

// handler answers for one form.
func (l *Lists) handler(name string, f form) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			refuse(w, http.StatusMethodNotAllowed, "lists can only be read, with GET or HEAD")
			return
		}
		rules := l.Rules()
		asked, status, err := parse(name, f, r.URL.Query(), rules)
		if err != nil {
			refuse(w, status, err.Error())
			return
		}
		l.serve(w, r, asked, rules)
	})
}

// slowest is the least number of bytes a second that a client must read.
const slowest = 64 << 10

func (l *Lists) serve(w http.ResponseWriter, r *http.Request, asked wanted, rules *rule.Set) {
	made, err := l.file(asked, rules)
	if err != nil {
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	}

	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(30*time.Second + time.Duration(len(made.body)/slowest)*time.Second)) // some writers have none
	w.Header().Set("ETag", made.tag)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(made.body))
}

// parse reads a request's query. An error comes with its status.
func parse(name string, f form, query url.Values, rules *rule.Set) (wanted, int, error) {
	asked := wanted{form: name, rule: query.Get("rule"), scope: outright.IP}
	for parameter, values := range query {
		if parameter != "rule" && parameter != "scope" || len(values) != 1 || values[0] == "" {
			return asked, http.StatusBadRequest, fmt.Errorf("%q is not accepted here; accepted are rule=NAME and scope=ip, user or another field, each once", parameter)
		}
	}

	if query.Has("scope") {
		asked.scope = query.Get("scope")
	}
	if f.addresses && asked.scope != outright.IP {
		return asked, http.StatusBadRequest, fmt.Errorf("%s lists have addresses only", name)
	}
	if asked.rule != "" && !known(asked.rule, rules) {
		return asked, http.StatusNotFound, fmt.Errorf("there is no rule %q", asked.rule)
	}

	return asked, 0, nil
}

func known(name string, rules *rule.Set) bool {
	return name == blocklist.ManualRule || rules != nil && slices.ContainsFunc(rules.Rules, func(r *rule.Rule) bool { return r.Name == name })
}

// refuse answers with a problem according to RFC 9457.
func refuse(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"type": "about:blank", "title": http.StatusText(status), "status": status, "detail": detail}) // fails only for a client that has gone
}
