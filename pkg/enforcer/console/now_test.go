package console_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"weir/pkg/blocklist"
	"weir/pkg/rule"
)

func numbered(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}

var shownKey = regexp.MustCompile(`data-f="key" href="([^"]*)">([^<]*)<`)

// keysOf returns the keys on a page, without the one of the row's template.
func keysOf(body string) (all []string) {
	for _, found := range shownKey.FindAllStringSubmatch(body, -1) {
		if found[2] != "" {
			all = append(all, html.UnescapeString(found[2]))
		}
	}
	return all
}

// A search of the list waits for its turn, and gives it back.
func TestSearchesTakeTurns(t *testing.T) {
	s := newStand(t, false)
	taken, kept := 0, 0
	s.config.Turn = func() func() {
		taken++
		kept++
		return func() { kept-- }
	}
	s.start()
	if status, _, _ := s.get("/console/?q=203"); status != http.StatusOK || taken != 1 || kept != 0 {
		t.Errorf("%d, %d turns, %d of them kept", status, taken, kept)
	}
}

// Filters select by key, prefix, field, rule, mode and kind, alone and together.
func TestFilters(t *testing.T) {
	shadow := verdict("scraper", "203.0.113.77", map[string]string{"ip": "203.0.113.77"})
	shadow.Mode = blocklist.Shadow
	s := newStand(t, false, ofIP("203.0.113.1"), ofIP("203.0.113.0/28"), ofIP("2001:db8:1::/64"), shadow,
		verdict("login", "alice /login", map[string]string{"user": "alice", "path": "/login"}))
	now := time.Now().UnixMilli()
	for _, o := range []*blocklist.Order{
		{ID: "1", Kind: blocklist.OrderBlock, Scope: "user", Value: "mallory", From: now, Until: blocklist.Never, By: "ann", Why: "stolen"},
		{ID: "2", Kind: blocklist.OrderAllow, Scope: "ip", Value: "203.0.113.1", From: now, Until: now + 60_000, By: "ann", Why: "ours"},
		{ID: "3", Kind: blocklist.OrderPardon, Rule: "per-ip", Key: "198.51.100.1", Pardons: "x", From: now, Until: now + 60_000, By: "ann", Why: "a mistake"},
	} {
		if err := s.set.Order(o, now); err != nil {
			t.Fatal(err)
		}
	}
	s.start()
	for query, want := range map[string]string{
		"":                        "user:mallory,203.0.113.1,203.0.113.0/28,2001:db8:1::/64,203.0.113.77,alice /login",
		"q=203.0.113.1":           "203.0.113.1,203.0.113.0/28",
		"q=203.0.113.0/24":        "203.0.113.1,203.0.113.0/28,203.0.113.77",
		"q=2001:db8::/32":         "2001:db8:1::/64",
		"q=203.0.113.7":           "203.0.113.0/28,203.0.113.77",
		"q=user:alice":            "alice /login",
		"q=user:mal":              "user:mallory",
		"q=path:/login":           "alice /login",
		"q=lice":                  "alice /login",
		"rule=per-ip":             "203.0.113.1,203.0.113.0/28,2001:db8:1::/64",
		"rule=per-ip&q=2001:db8:": "2001:db8:1::/64",
		"mode=shadow":             "203.0.113.77",
		"kind=hand":               "user:mallory",
		"kind=rules&mode=enforce&q=203.0.113.0/24": "203.0.113.1,203.0.113.0/28",
		"kind=let": "203.0.113.1",
		"q=nobody": "",
	} {
		status, body, _ := s.get("/console/?" + query)
		got, all := keysOf(body), strings.Split(want, ",")
		if want == "" {
			all = nil
		}
		same := len(got) == len(all)
		for _, key := range all {
			same = same && strings.Contains(strings.Join(got, ",")+",", key+",")
		}
		if status != http.StatusOK || !same {
			t.Errorf("%s: %d %q, not %q", query, status, got, want)
		}
	}
	for _, query := range []string{"mode=on", "kind=x", "group=country", "before=x", "q=" + strings.Repeat("x", 2000)} {
		if status, _, _ := s.get("/console/?" + query); status != http.StatusBadRequest {
			t.Errorf("%s: %d", query, status)
		}
	}

	_, body, _ := s.get("/console/")
	for _, want := range []string{`data-total="blocked">5<`, `data-total="shadow">1<`, `data-total="hand">1<`, `data-total="let">1<`, "let in by ann", "Would block", "Blocked by hand", "11 hits broke 10/min", "ann: stolen"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page has no %s", want)
		}
	}
}

// Pages follow one another and have every entry once, newest first.
func TestPages(t *testing.T) {
	var entries []*blocklist.Entry
	for i := range 130 {
		e := ofIP(numbered(i).String())
		e.Decided -= int64(i / 3) // several of one instant
		entries = append(entries, e)
	}
	s := newStand(t, false, entries...).start()
	seen, path := map[string]bool{}, "/console/?rule=per-ip"
	next := regexp.MustCompile(`<a href="([^"]*)" rel="next">`)
	for pages := 1; ; pages++ {
		_, body, _ := s.get(path)
		for _, key := range keysOf(body) {
			if seen[key] {
				t.Errorf("%s is on two pages", key)
			}
			seen[key] = true
		}
		found := next.FindStringSubmatch(body)
		if found == nil {
			if pages != 3 {
				t.Errorf("%d pages", pages)
			}
			break
		}
		path = html.UnescapeString(found[1])
	}
	if len(seen) != 130 {
		t.Errorf("%d entries", len(seen))
	}
}

func TestGroups(t *testing.T) {
	shadow := ofIP("203.0.113.9")
	shadow.Mode = blocklist.Shadow
	s := newStand(t, false, ofIP("203.0.113.1"), ofIP("203.0.113.2"), shadow, ofIP("2001:db8:1:1::/64"), ofIP("2001:db8:1:2::/64"), verdict("login", "alice", map[string]string{"user": "alice"})).start()
	_, body, _ := s.get("/console/?group=network")
	for _, want := range []string{`href="/console/?q=203.0.113.0%2F24">203.0.113.0/24<`, `href="/console/?q=2001%3Adb8%3A1%3A%3A%2F48">2001:db8:1::/48<`, `data-label="Entries">3<`, `data-label="Shadow">1<`, "1 more in other groups"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
	_, body, _ = s.get("/console/?group=rule")
	if !strings.Contains(body, `href="/console/?rule=per-ip">per-ip<`) || !strings.Contains(body, `data-label="Entries">5<`) {
		t.Error(body)
	}
}

// hostile are texts that clients choose.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `javascript:alert(1)`, "a\u202egnp.exe", "\x1b[31m\x00\r\n", `' onmouseover='alert(1)`, `{{.}}`, "</td></tr></table><h1>Hello",
	strings.Repeat("x", 900), "\u2028\u2066", "&lt;b&gt;", "a\xff",
}

// Nothing that a client or a person writes becomes markup or a link elsewhere, in any field.
func TestHostileTexts(t *testing.T) {
	for _, text := range hostile {
		e := verdict("per-ip", text, map[string]string{"agent": text})
		e.Limit, e.By = cut(text, 200), cut(text, 200)
		s := newStand(t, false, e)
		now := time.Now().UnixMilli()
		for _, o := range []*blocklist.Order{
			{ID: "1", Kind: blocklist.OrderBlock, Scope: "agent", Value: text + "1", From: now, Until: now + 9000, By: cut(text, 200), Why: text},
			{ID: "2", Kind: blocklist.OrderAllow, Scope: "agent", Value: text, From: now, Until: now + 9000, By: cut(text, 200), Why: text},
			{ID: "3", Kind: blocklist.OrderPause, Rule: "r" + cut(strings.ReplaceAll(text, "/", ""), 200), From: now, Until: now + 9000, By: cut(text, 200), Why: text},
		} {
			if err := s.set.Order(o, now); err != nil {
				t.Fatal(err)
			}
		}
		s.start()
		for _, path := range []string{"/console/", "/console/?kind=let", "/console/?group=rule", "/console/?q=" + url.QueryEscape(text), "/console/?rule=" + url.QueryEscape(text)} {
			status, body, _ := s.get(path)
			if status != http.StatusOK {
				t.Errorf("%q: %d", path, status)
			}
			safePage(t, text, body)
		}
	}
}

// attribute finds the values that are sent and not shown.
var attribute = regexp.MustCompile(`<(?:option|input type="hidden" name="[a-z]+") value="[^"]*"`)

func cut(text string, most int) string { return text[:min(len(text), most)] }

// safePage fails for a page on which a hostile text is more than text.
func safePage(t *testing.T, text, body string) {
	t.Helper()
	body = attribute.ReplaceAllString(body, "")
	for _, bad := range []string{"<script>alert", "<img src=x", "onerror=alert(1)>", " onmouseover='", "<h1>Hello", "\u202e", "\u2066", "\x1b", "\x00", `href="javascript:`, "<b>"} {
		if strings.Contains(body, bad) {
			at := strings.Index(body, bad)
			t.Errorf("%.40q: the page has %q in %q", text, bad, body[max(0, at-80):min(len(body), at+80)])
		}
	}
}

// A user who is named as a network is one: the row's page must not let in or block the network.
func TestAUserNamedAsANetwork(t *testing.T) {
	const name = "203.0.113.0/24"
	s := newStand(t, false, ofIP("203.0.113.5"), verdict("per-user", name, map[string]string{"user": name})).withRules("x")
	set, _, err := rule.Parse("rules.yaml", []byte("rules: [{name: per-user, key: user, limits: [5/min]}]"))
	if err != nil {
		t.Fatal(err)
	}
	s.config.Rules = func() *rule.Set { return set }
	s.answers["/v1/numbers"] = `{"entries":[{"rule":"per-user","key":"` + name + `","target":"user:` + name + `","refused":5}]}`
	s.answers["/v1/whatif"] = `{"hits":5,"top":[{"key":"` + name + `","hits":5}]}`
	s.start()
	for _, page := range []string{"/console/", "/console/?group=refused", "/console/whatif?rule=per-user&limits=5/min&since=1h"} {
		_, list, _ := s.get(page)
		if !strings.Contains(list, `href="/console/key?key=user%3A203.0.113.0%2F24"`) || !strings.Contains(list, ">user:"+name+"<") || strings.Contains(list, ">"+name+"<") {
			t.Errorf("%s has no user:%s: %s", page, name, list)
		}
	}
}

// A user whose name ends in a space is another one than the user without it: the row's page and its forms are about that
// user alone.
func TestAUserNamedWithASpace(t *testing.T) {
	const name = "alice "
	s := newStand(t, true, verdict("per-user", name, map[string]string{"user": name})).withRules("x")
	answers := s.answer
	s.answer = func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/find" {
			answers(w, r)
			return
		}
		found := []*blocklist.Entry{}
		for one := range s.set.Find(r.URL.Query().Get("key"), time.Now().UnixMilli()) {
			found = append(found, one.Entry)
		}
		fmt.Fprint(w, asJSON(t, map[string]any{"entries": found}))
	}
	s.start()
	s.login("ann's")
	_, list, _ := s.get("/console/")
	link := regexp.MustCompile(`href="(/console/key[^"]*)"`).FindStringSubmatch(list)
	_, page, _ := s.get(html.UnescapeString(link[1]))
	for _, target := range []string{name, "user:" + name} {
		if !strings.Contains(page, `name="target" value="`+target+`"`) {
			t.Errorf("%s has no form about %q: %s", link[1], target, page)
		}
		s.orders = nil
		form := url.Values{"token": {s.token()}, "action": {"unblock"}, "target": {target}, "why": {"x"}, "step": {"do"}}
		s.post("/console/act", form)
		if want := "key=" + url.QueryEscape(target) + "&"; len(s.orders) != 1 || !strings.Contains(s.orders[0], want) {
			t.Errorf("%q, not about %q", s.orders, want)
		}
	}
}

// The first paint is small, also with a full page of long keys, and nothing in it needs an exception of the policy.
func TestFirstPaint(t *testing.T) {
	var entries []*blocklist.Entry
	for i := range 60 {
		entries = append(entries, verdict("per-client", fmt.Sprintf("%d user-%x", i, i*7919), map[string]string{"user": fmt.Sprint(i)}))
	}
	s := newStand(t, false, entries...).start()
	page, body := s.zipped("/console/")
	total := page
	for _, one := range regexp.MustCompile(`(?:href|src)="(/console/assets/[^"]+)"`).FindAllStringSubmatch(body, -1) {
		size, _ := s.zipped(one[1])
		total += size
	}
	t.Logf("%d bytes, of them %d of the page", total, page)
	if total > 50_000 {
		t.Errorf("the first paint has %d bytes", total)
	}
	if bad := regexp.MustCompile(`(?i)<script>|<style|\sstyle=|\son[a-z]+=|javascript:`).FindString(body); bad != "" {
		t.Errorf("the page has %s", bad)
	}

	_, _, header := s.get("/console/")
	policy := header.Get("Content-Security-Policy")
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") || !strings.HasPrefix(policy, "default-src 'none';") || !strings.Contains(policy, "frame-ancestors 'none'") {
		t.Error(policy)
	}
	if got := header.Get("Cache-Control"); got != "no-store" {
		t.Error(got)
	}
}

// zipped returns how many bytes an answer has compressed, and what it contains.
func (s *stand) zipped(path string) (size int, body string) {
	s.t.Helper()
	r, _ := http.NewRequest(http.MethodGet, s.url+path, http.NoBody)
	r.Header.Set("Accept-Encoding", "gzip")
	answer, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	counted := &counting{from: answer.Body}
	zip, err := gzip.NewReader(counted)
	if err != nil {
		s.t.Fatal(err)
	}
	var text strings.Builder
	if _, err := bufio.NewReader(zip).WriteTo(&text); err != nil {
		s.t.Fatal(err)
	}
	return counted.n, text.String()
}

type counting struct {
	from interface{ Read([]byte) (int, error) }
	n    int
}

func (c *counting) Read(b []byte) (int, error) {
	n, err := c.from.Read(b)
	c.n += n
	return n, err
}

// A liveChange is a change of a live list.
type liveChange struct {
	Rows []struct{ Key, Link, Place, State, Note string }
	Gone []string
	Left int
}

// follow reads the changes of a live list until the returned function is called.
func (s *stand) follow(query string) (changes chan liveChange, stop func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/console/live?"+query, http.NoBody)
	answer, err := s.client.Do(r) //nolint:bodyclose // the goroutine closes it
	if err != nil {
		s.t.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/event-stream" {
		s.t.Fatal(answer.Status)
	}
	changes = make(chan liveChange, 100)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(changes)
		defer answer.Body.Close()
		lines := bufio.NewScanner(answer.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				one := liveChange{}
				_ = json.Unmarshal([]byte(data), &one)
				select {
				case changes <- one:
				default:
				}
			}
		}
	}()
	return changes, func() { cancel(); <-ended }
}

// A live list has what its filters select, at most a page of it, and what is gone.
func TestLive(t *testing.T) {
	s := newStand(t, false).start()
	changes, stop := s.follow("q=203.0.113.")
	defer stop()
	at := int64(1)
	apply := func(entries ...*blocklist.Entry) {
		var all []blocklist.Change
		for _, e := range entries {
			all = append(all, changeOf(t, at, e))
			at++
		}
		now := time.Now().UnixMilli()
		if err := s.set.Apply(now, all...); err != nil {
			t.Fatal(err)
		}
	}
	await := func(what string, wanted func(liveChange) bool) liveChange {
		t.Helper()
		for deadline := time.After(10 * time.Second); ; {
			select {
			case one := <-changes:
				if wanted(one) {
					return one
				}
			case <-deadline:
				t.Fatal(what)
			}
		}
	}

	apply(ofIP("203.0.113.5"), ofIP("198.51.100.1"))
	first := await("the entry", func(c liveChange) bool { return len(c.Rows) > 0 })
	if len(first.Rows) != 1 || first.Rows[0].Key != "203.0.113.5" || first.Rows[0].Link != "/console/key?key=203.0.113.5" {
		t.Errorf("%+v", first)
	}

	var many []*blocklist.Entry
	for i := range 200 {
		many = append(many, ofIP(fmt.Sprintf("203.0.113.%d", i+6)))
	}
	apply(many...)
	if burst := await("a burst", func(c liveChange) bool { return len(c.Rows) > 1 }); len(burst.Rows) != 50 || burst.Left != 150 || burst.Rows[0].Key != "203.0.113.205" {
		t.Errorf("%d rows, %d left, first %+v", len(burst.Rows), burst.Left, burst.Rows[0])
	}

	ended := ofIP("203.0.113.5")
	ended.Ended = time.Now().UnixMilli()
	apply(ended)
	if gone := await("its end", func(c liveChange) bool { return len(c.Gone) > 0 }); gone.Gone[0] != first.Rows[0].Place {
		t.Errorf("%+v", gone)
	}

	now := time.Now().UnixMilli()
	if err := s.set.Order(&blocklist.Order{ID: "9", Kind: blocklist.OrderBlock, Scope: "ip", Value: "203.0.113.250", From: now, Until: blocklist.Never, By: "ann", Why: "x"}, now); err != nil {
		t.Fatal(err)
	}
	if hand := await("an order", func(c liveChange) bool { return len(c.Rows) > 0 }); hand.Rows[0].State != "Blocked by hand" {
		t.Errorf("%+v", hand)
	}
}

// Two names that a client has made for it have the same xxhash64, with "per-user" before them: each has its row.
func TestALiveListHasEachOfTwoUsers(t *testing.T) {
	s := newStand(t, false).start()
	if err := s.set.Apply(time.Now().UnixMilli(), changeOf(t, 1, ofIP("203.0.113.5"))); err != nil {
		t.Fatal(err)
	}
	changes, stop := s.follow("q=xxx")
	defer stop()
	const pad, rest = "uxxxxxxxxxxxxxxxxxxxxxx", "0123456789abcdef01234567"
	var all []blocklist.Change
	for at, user := range []string{pad + "O3OeqxuB" + rest + "noHbr1XZ" + rest, pad + "bPy8cq6E" + rest + "OSusnNCt" + rest} {
		all = append(all, changeOf(t, int64(at+2), verdict("per-user", user, map[string]string{"user": user})))
	}
	if err := s.set.Apply(time.Now().UnixMilli(), all...); err != nil {
		t.Fatal(err)
	}

	places := map[string]bool{}
	for deadline := time.After(10 * time.Second); len(places) < 2; {
		select {
		case one := <-changes:
			for _, r := range one.Rows {
				places[r.Place] = true
			}
		case <-deadline:
			t.Fatalf("the list has %d rows for two users", len(places))
		}
	}
}

// A live list ends with its session.
func TestALiveListEndsWithItsKey(t *testing.T) {
	s := newStand(t, true).start()
	s.login("rob's")
	changes, stop := s.follow("")
	defer stop()
	s.writeKeys("keys: []\n")
	reread(t, s.config.Keys)
	for deadline := time.After(10 * time.Second); ; {
		select {
		case _, more := <-changes:
			if !more {
				return
			}
		case <-deadline:
			t.Fatal("it goes on")
		}
	}
}
