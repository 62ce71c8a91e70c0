package console_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// A user of this machine gets a link over the socket, which logs in once, within a minute, with that user's name and
// without a key.
func TestALinkLogsInOnce(t *testing.T) {
	now := time.Date(2026, 3, 3, 8, 0, 0, 0, time.UTC)
	s := newStand(t, false, ofIP("203.0.113.7")).withRules("x")
	s.config.Now = func() time.Time { return now }
	s.config.Person = func(r *http.Request) (string, bool) { return "eve", r.Header.Get("Over") == "the socket" }
	s.start()
	link := func() (path, secret string) {
		t.Helper()
		var answer struct{ Path, Name string }
		status, body, _ := s.post("/console/once", nil, "Over", "the socket", "Origin", "")
		if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK || answer.Name != "eve" {
			t.Fatal(status, body)
		}
		at, _ := url.Parse(answer.Path)
		return answer.Path, at.Query().Get("once")
	}
	if status, body, _ := s.post("/console/once", nil); status != http.StatusForbidden || !strings.Contains(body, "only over the enforcer's socket") {
		t.Errorf("not over the socket: %d %s", status, body)
	}

	path, secret := link()
	for range 2 { // looking at the link does not use it
		if _, body, _ := s.get(path); !strings.Contains(body, fmt.Sprintf(`name="once" value=%q`, secret)) {
			t.Error(body)
		}
	}
	if status, _, _ := s.post("/console/login", url.Values{"once": {secret}}, "Origin", "https://evil.example"); status != http.StatusForbidden {
		t.Errorf("from another page: %d", status)
	}
	if status, _, header := s.post("/console/login", url.Values{"once": {secret}}); status != http.StatusSeeOther || !strings.Contains(header.Get("Set-Cookie"), "HttpOnly") {
		t.Fatalf("%d %v", status, header)
	}
	now = now.Add(50 * time.Minute)
	form := url.Values{"token": {s.token()}, "action": {"block"}, "target": {"203.0.113.0/24"}, "for": {"1h"}, "why": {"because"}, "step": {"do"}}
	if status, _, _ := s.post("/console/act", form); status != http.StatusSeeOther || len(s.orders) != 1 || !strings.HasSuffix(s.orders[0], " by eve write") {
		t.Errorf("%d %q", status, s.orders)
	}

	refused := func(what, secret string) {
		t.Helper()
		if status, body, _ := s.post("/console/login", url.Values{"once": {secret}}); status != http.StatusUnauthorized || !strings.Contains(body, "This link has been used") {
			t.Errorf("%s: %d %s", what, status, body)
		}
	}
	refused("a second time", secret)
	_, late := link()
	now = now.Add(time.Minute)
	refused("after a minute", late)
	_, first := link()
	now = now.Add(time.Second)
	for range 16 {
		link()
	}
	refused("the oldest of 17", first)
}
