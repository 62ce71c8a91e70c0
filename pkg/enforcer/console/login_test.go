package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/keys"
	"weir/pkg/enforcer/console"
)

// A key of a role that reads begins a session in a cookie that scripts and other sites do not get.
func TestLogIn(t *testing.T) {
	s := newStand(t, true).start()
	status, _, header := s.get("/console/?rule=per-ip&q=a")
	if to := header.Get("Location"); status != http.StatusSeeOther || to != "/console/login?next="+url.QueryEscape("/console/?rule=per-ip&q=a") {
		t.Fatalf("without a log-in: %d %s", status, to)
	}
	if status, _, _ := s.get("/console/live"); status != http.StatusUnauthorized {
		t.Errorf("the live list without a log-in: %d", status)
	}

	status, _, header = s.login("ann's")
	cookie := header.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=/console/", "Max-Age=43200"} {
		if !strings.Contains(cookie, want) {
			t.Errorf("the cookie %s has no %s", cookie, want)
		}
	}
	if status != http.StatusSeeOther || header.Get("Location") != "/console/?q=1" || strings.Contains(cookie, "ann") {
		t.Errorf("%d %s %s", status, header.Get("Location"), cookie)
	}
	status, body, _ := s.get("/console/")
	if status != http.StatusOK || !strings.Contains(body, "ann <small>write</small>") {
		t.Errorf("%d %s", status, body)
	}

	if status, _, _ := s.post("/console/logout", url.Values{"token": {s.token()}}); status != http.StatusSeeOther {
		t.Errorf("logging out: %d", status)
	}
	if status, _, _ := s.get("/console/"); status != http.StatusSeeOther {
		t.Errorf("after logging out: %d", status)
	}
}

func TestWrongKeysDoNotLogIn(t *testing.T) {
	s := newStand(t, true).start()
	for key, want := range map[string]string{"": "This key is not known.", "nobody's": "This key is not known.", "edge's": "The key edge has the role take."} {
		status, body, header := s.login(key)
		if status != http.StatusUnauthorized || !strings.Contains(body, want) || header.Get("Set-Cookie") != "" {
			t.Errorf("%q: %d %s", key, status, body)
		}
	}
	none := newStand(t, false).start()
	if status, body, _ := none.login("ann's"); status != http.StatusUnauthorized || !strings.Contains(body, "no file of keys") {
		t.Errorf("without keys: %d %s", status, body)
	}
}

// Wrong keys do not keep the owner of a right one out, who may have the same address: that of a proxy, or loopback.
func TestWrongKeysKeepNoOneOut(t *testing.T) {
	s := newStand(t, true).start()
	var all sync.WaitGroup
	for range 20 {
		all.Add(1)
		go func() {
			defer all.Done()
			r, _ := http.NewRequest(http.MethodPost, s.url+"/console/login", strings.NewReader("key=wrong"))
			r.Header.Set("Origin", s.url)
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			answer, err := s.client.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			answer.Body.Close()
			if answer.StatusCode != http.StatusUnauthorized {
				t.Error(answer.Status)
			}
		}()
	}
	all.Wait()
	if status, body, _ := s.login("ann's"); status != http.StatusSeeOther {
		t.Errorf("%d %s", status, body)
	}
}

// A session ends when it was not used, after half a day, and with its key.
func TestSessionsEnd(t *testing.T) {
	s := newStand(t, true).start()
	for name, end := range map[string]func(){
		"the key is gone":          func() { s.writeKeys("keys: []\n") },
		"the key has another role": func() { s.writeKeys(strings.Replace(allKeys, "role: write", "role: read", 1)) },
		"the file is gone":         func() { s.writeKeys("keys: []\n") },
	} {
		s.writeKeys(allKeys)
		reread(t, s.config.Keys)
		if status, _, _ := s.login("ann's"); status != http.StatusSeeOther {
			t.Fatalf("%s: %d", name, status)
		}
		end()
		reread(t, s.config.Keys)
		if status, _, _ := s.get("/console/"); status != http.StatusSeeOther {
			t.Errorf("%s: %d", name, status)
		}
	}

	s.writeKeys(allKeys)
	reread(t, s.config.Keys)
	synctest.Test(t, func(t *testing.T) {
		sessions := console.NewSessions(s.config.Keys, time.Now)
		key, _ := s.config.Keys.Find("ann's")
		used, idle := sessions.Begin(key), sessions.Begin(key)
		for range 23 {
			time.Sleep(30 * time.Minute)
			if !sessions.Use(used) {
				t.Fatal("it ended while it was used")
			}
		}
		if sessions.Use(idle) {
			t.Error("one that nobody used lasts")
		}
		if time.Sleep(time.Hour - time.Minute); sessions.Use(used) {
			t.Error("it lasts longer than half a day")
		}
		for range 1100 {
			sessions.Begin(key)
			time.Sleep(time.Millisecond)
		}
		if n := sessions.Number(); n != 1000 {
			t.Errorf("%d sessions", n)
		}
	})
}

// Many sessions of one key do not end those of another.
func TestSessionsAreSharedByKeys(t *testing.T) {
	s := newStand(t, true)
	synctest.Test(t, func(t *testing.T) {
		sessions := console.NewSessions(s.config.Keys, time.Now)
		ann, _ := s.config.Keys.Find("ann's")
		rob, _ := s.config.Keys.Find("rob's")
		first := sessions.Begin(ann)
		var last string
		for range 1100 {
			time.Sleep(time.Millisecond)
			last = sessions.Begin(rob)
		}
		if n := sessions.Number(); n != 1000 || !sessions.Use(first) || !sessions.Use(last) {
			t.Errorf("%d sessions; ann's lasts %v, rob's last %v", n, sessions.Use(first), sessions.Use(last))
		}
	})
}

func reread(t *testing.T, f *keys.File) {
	t.Helper()
	if _, err := f.Reread(); err != nil {
		t.Fatal(err)
	}
}

// Only the console's own pages can log in and log out.
func TestFormsOfOtherPages(t *testing.T) {
	s := newStand(t, true).start()
	for _, origin := range []string{"", "null", "https://evil.example", "http://" + s.host + ".evil.example"} {
		if status, _, header := s.post("/console/login", url.Values{"key": {"ann's"}}, "Origin", origin); status != http.StatusForbidden || header.Get("Set-Cookie") != "" {
			t.Errorf("a log-in from %q: %d", origin, status)
		}
	}
	s.login("ann's")
	for name, form := range map[string]url.Values{"no token": {}, "an empty one": {"token": {""}}, "another": {"token": {strings.Repeat("0", 128)}}} {
		if status, _, _ := s.post("/console/logout", form); status != http.StatusForbidden {
			t.Errorf("%s: %d", name, status)
		}
	}
	if status, _, _ := s.post("/console/logout", url.Values{"token": {s.token()}}, "Origin", "https://evil.example"); status != http.StatusForbidden {
		t.Errorf("from another origin: %d", status)
	}
	if status, _, _ := s.get("/console/"); status != http.StatusOK {
		t.Errorf("it was logged out: %d", status)
	}
}

// A log-in leads to pages of the console only.
func TestALogInLeadsToTheConsole(t *testing.T) {
	s := newStand(t, true).start()
	for next, want := range map[string]string{
		"/console/key?key=a%2Fb": "/console/key?key=a%2Fb", "https://evil.example/console/": "/console/", "//evil.example/console/": "/console/",
		"/console/../v1/x": "/console/", `/console/\evil.example`: "/console/", "/v1/blocklist": "/console/", "javascript:alert(1)": "/console/", "": "/console/",
		"/console/\r\nSet-Cookie: a=b": "/console/",
	} {
		if _, _, header := s.post("/console/login", url.Values{"key": {"ann's"}, "next": {next}}); header.Get("Location") != want {
			t.Errorf("%q leads to %q", next, header.Get("Location"))
		}
	}
}

// A browser leaves a strict cookie out when another site's link leads to the console: the page asks again by itself.
func TestALinkOfAnotherSite(t *testing.T) {
	s := newStand(t, true).start()
	status, body, _ := s.do(http.MethodGet, "/console/?q=a", nil, []string{"Sec-Fetch-Site", "cross-site"})
	if status != http.StatusOK || !strings.Contains(body, `http-equiv="refresh" content="0; url=/console/?q=a"`) {
		t.Errorf("%d %s", status, body)
	}
}

// The key that a proxy adds is enough to read. A session counts, whatever key a proxy adds.
func TestAKeyThatAProxyAdds(t *testing.T) {
	s := newStand(t, true, ofIP("203.0.113.7")).withRules("x").start()
	added := []string{"X-Api-Key", "rob's"}
	if status, body, _ := s.do(http.MethodGet, "/console/key?key=203.0.113.7", nil, added); status != http.StatusOK || strings.Contains(body, "/console/act") {
		t.Errorf("without a session: %d %s", status, body)
	}
	s.login("ann's")
	if status, body, _ := s.do(http.MethodGet, "/console/key?key=203.0.113.7", nil, added); status != http.StatusOK || !strings.Contains(body, "/console/act") {
		t.Errorf("with a session: %d %s", status, body)
	}
	form := url.Values{"token": {s.token()}, "action": {"resume"}, "rule": {"per-ip"}, "why": {"because"}, "step": {"do"}}
	if status, _, _ := s.post("/console/act", form, added...); status != http.StatusSeeOther || len(s.orders) != 1 || !strings.HasSuffix(s.orders[0], " by ann write") {
		t.Errorf("an action: %d %q", status, s.orders)
	}
}
