package daemon

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// The console is served at the enforcer's address unless it is off. People log in with their keys; a removed key ends
// the session while the process runs.
func TestTheConsoleIsServed(t *testing.T) {
	broker := newMortal(t)
	kafka := broker.yaml()
	if status, _ := visit(t, newEdge(t, kafka, "  console: off\n").start(), http.MethodGet, "/console/", ""); status != http.StatusNotFound {
		t.Errorf("a console that is off: %d", status)
	}

	e := newEdge(t, kafka, "").start()
	if status, header := visit(t, e, http.MethodGet, "/console/", ""); status != http.StatusSeeOther || !strings.HasPrefix(header.Get("Location"), "/console/login") {
		t.Errorf("without a log-in: %d %v", status, header)
	}
	status, header := visit(t, e, http.MethodPost, "/console/login", "", "key", "reader")
	cookie, _, _ := strings.Cut(header.Get("Set-Cookie"), ";")
	if status != http.StatusSeeOther || cookie == "" {
		t.Fatalf("the log-in: %d %v", status, header)
	}
	if status, _ := visit(t, e, http.MethodGet, "/console/", cookie); status != http.StatusOK {
		t.Errorf("after it: %d", status)
	}
	if status, _ := visit(t, e, http.MethodPost, "/console/login", "", "key", "reader", "Origin", "http://evil.example"); status != http.StatusForbidden {
		t.Errorf("a log-in of another page: %d", status)
	}

	e.write("keys.yaml", "keys: []\n")
	e.await("the end of the session", func() bool {
		status, _ := visit(t, e, http.MethodGet, "/console/", cookie)
		return status == http.StatusSeeOther
	})
}

// visit sends a request of the console's own page. The pairs are the fields of a form, and Origin.
func visit(t *testing.T, e *edge, method, path, cookie string, pairs ...string) (status int, header http.Header) {
	t.Helper()
	form, origin := url.Values{}, "http://"+e.listen
	for i := 0; i < len(pairs); i += 2 {
		if form.Set(pairs[i], pairs[i+1]); pairs[i] == "Origin" {
			origin = pairs[i+1]
		}
	}
	r, err := http.NewRequest(method, "http://"+e.listen+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if method == http.MethodPost {
		r.Header.Set("Origin", origin)
	}
	if cookie != "" {
		r.Header.Set("Cookie", cookie)
	}
	answer, err := e.client.Transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return answer.StatusCode, answer.Header
}
