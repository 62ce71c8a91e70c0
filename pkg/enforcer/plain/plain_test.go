package plain

import (
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/pkg/blocklist"
	"weir/pkg/rule"
)

// A list is a list for tests.
type list struct {
	entries []*blocklist.Entry
	orders  []*blocklist.Order
	part    bool // some of it is missing
	asked   int
}

func (l *list) All(int64) iter.Seq[*blocklist.Entry] {
	l.asked++
	return slices.Values(l.entries)
}
func (l *list) Orders(int64) iter.Seq[*blocklist.Order] { return slices.Values(l.orders) }
func (l *list) Whole() bool                             { return !l.part }
func (l *list) Edits() uint64                           { return 0 }

var now = time.UnixMilli(1_800_000_000_000)

func blocked(name, scope, value string, d time.Duration) *blocklist.Entry {
	return &blocklist.Entry{Rule: name, Key: value, Fields: map[string]string{scope: value}, Until: now.Add(d).UnixMilli()}
}

var testRules = func() *rule.Set {
	set, _, err := rule.Parse("rules.yaml", []byte(`rules:
  - {name: per-ip, key: ip, limits: [10/min]}
  - {name: per-net, key: ip/24, limits: [10/min]}
  - {name: per-user, key: user, limits: [10/min]}
  - {name: posts, key: user, limits: [10/min]}
  - {name: sign-in, key: ip, limits: [10/min], match: path == "/login", block: {covers: match}}
`))
	if err != nil {
		panic(err)
	}
	return set
}()

func sample() *list {
	forever := blocked("manual", "ip", "2001:db8::/32", 0)
	forever.Until = blocklist.Never
	return &list{
		entries: []*blocklist.Entry{
			blocked("per-ip", "ip", "203.0.113.7", 90*time.Second), blocked("per-ip", "ip", "10.1.2.3", time.Millisecond),
			blocked("per-net", "ip", "203.0.113.0/30", time.Minute), blocked("sign-in", "ip", "203.0.113.99", time.Minute),
			blocked("per-user", "user", `a"l\ice;`+"\n", time.Minute), blocked("per-user", "user", "Bob", time.Minute),
			blocked("posts", "user", "Bob", time.Hour), blocked("per-user", "user", "4711", time.Minute), blocked("per-user", "user", "ü b", time.Minute), forever,
		},
		orders: []*blocklist.Order{{Kind: blocklist.OrderAllow, Scope: "ip", Value: "203.0.113.0"}},
	}
}

func listsOf(l *list) (*Lists, *http.ServeMux) {
	lists := New(Config{List: l, Rules: func() *rule.Set { return testRules }, Now: func() time.Time { return now },
		Guard: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Api-Key") != "k" {
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				next.ServeHTTP(w, r)
			})
		}})
	mux := http.NewServeMux()
	lists.Handle(mux)
	return lists, mux
}

func ask(mux *http.ServeMux, method, url string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, url, nil)
	r.Header.Set("X-Api-Key", "k")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	return w
}

func TestForms(t *testing.T) {
	_, mux := listsOf(sample())
	tests := map[string]string{
		"txt":             "10.1.2.3\n203.0.113.1\n203.0.113.2/31\n203.0.113.7\n2001:db8::/32\n",
		"txt?rule=manual": "2001:db8::/32\n",
		"txt?scope=user":  "4711\nBob\na\"l\\\\ice;\\x0a\nü b\n",
		"txt?scope=host":  "",
		"nginx":           "10.1.2.3 per-ip;\n203.0.113.1 per-net;\n203.0.113.2/31 per-net;\n203.0.113.7 per-ip;\n2001:db8::/32 manual;\n",
		"nginx?scope=user": "4711 per-user;\n\"~\\ABob\\z\" posts;\n\"~\\Aa\\x22l\\x5cice\\x3b\\x0a\\z\" per-user;\n" +
			"\"~\\A\\xc3\\xbc\\x20b\\z\" per-user;\n",
		"haproxy?rule=per-net":             "203.0.113.1 per-net\n203.0.113.2/31 per-net\n",
		"haproxy?scope=user&rule=per-user": "4711 per-user\nBob per-user\na%22l%5Cice%3B%0A per-user\n%C3%BC%20b per-user\n",
		"nft?rule=per-ip": nftHead + "add element inet weir_list blocked4 { 10.1.2.3 timeout 1s }\n" +
			"add element inet weir_list blocked4 { 203.0.113.7 timeout 90s }\n",
		"nft?rule=manual": nftHead + "add element inet weir_list blocked6 { 2001:db8::/32 }\n",
	}
	for url, want := range tests {
		w := ask(mux, "GET", "/v1/blocklist."+url)
		if w.Code != 200 || w.Body.String() != want || w.Header().Get("Content-Length") != fmt.Sprint(len(want)) {
			t.Errorf("%s: %d, %s bytes\n got %q\nwant %q", url, w.Code, w.Header().Get("Content-Length"), w.Body, want)
		}
		if w := ask(mux, "HEAD", "/v1/blocklist."+url); w.Code != 200 || w.Body.Len() != 0 || w.Header().Get("Content-Length") != fmt.Sprint(len(want)) {
			t.Errorf("HEAD %s: %d, %d bytes", url, w.Code, w.Body.Len())
		}
	}
}

// nft refuses a complete list if a number in it has more than eight digits. test/edges has nft itself read such a list.
func TestLongTimesForNft(t *testing.T) {
	for d, want := range map[time.Duration]string{
		99_999_999 * time.Second:  "99999999s",
		100_000_000 * time.Second: "1157d35200s",
		10 * 365 * 24 * time.Hour: "3650d0s",
	} {
		_, mux := listsOf(&list{entries: []*blocklist.Entry{blocked("per-ip", "ip", "203.0.113.7", d)}})
		want = nftHead + "add element inet weir_list blocked4 { 203.0.113.7 timeout " + want + " }\n"
		if w := ask(mux, "GET", "/v1/blocklist.nft"); w.Body.String() != want {
			t.Errorf("got %q\nwant %q", w.Body, want)
		}
	}
}

func TestRefused(t *testing.T) {
	l := sample()
	_, mux := listsOf(l)
	tests := []struct {
		method, url string
		code        int
		want        string
	}{
		{"POST", "txt", 405, "GET or HEAD"},
		{"GET", "txt?rules=per-ip", 400, `\"rules\" is not accepted`},
		{"GET", "txt?rule=per-ip&rule=per-net", 400, "once"},
		{"GET", "txt?rule=", 400, "once"},
		{"GET", "txt?rule=per-ipp", 404, `there is no rule \"per-ipp\"`},
		{"GET", "nft?scope=user", 400, "addresses only"},
	}
	for _, test := range tests {
		w := ask(mux, test.method, "/v1/blocklist."+test.url)
		if w.Code != test.code || !strings.Contains(w.Body.String(), test.want) || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", test.url, w.Code, w.Body)
		}
	}
	if w := ask(mux, "GET", "/v1/blocklist.txt", "X-Api-Key", "wrong"); w.Code != 401 || strings.Contains(w.Body.String(), "203.") {
		t.Errorf("a wrong key: %d %s", w.Code, w.Body)
	}
	l.part = true
	if w := ask(mux, "GET", "/v1/blocklist.txt"); w.Code != 503 || w.Header().Get("Retry-After") == "" || strings.Contains(w.Body.String(), "203.") {
		t.Errorf("half a list: %d %s", w.Code, w.Body)
	}
}

// A tag stays the same as long as the list does, even for a form that is different at each moment, and changes with the
// list.
func TestTags(t *testing.T) {
	for name := range forms {
		l := sample()
		lists, mux := listsOf(l)
		first := ask(mux, "GET", "/v1/blocklist."+name).Header().Get("ETag")
		lists.Now = func() time.Time { return now.Add(10 * time.Second) }
		if w := ask(mux, "GET", "/v1/blocklist."+name, "If-None-Match", first); w.Code != http.StatusNotModified || w.Body.Len() > 0 {
			t.Errorf("%s: the same list: %d", name, w.Code)
		}
		l.entries = l.entries[1:]
		lists.Now = func() time.Time { return now.Add(20 * time.Second) }
		if w := ask(mux, "GET", "/v1/blocklist."+name, "If-None-Match", first); w.Code != 200 || w.Header().Get("ETag") == first {
			t.Errorf("%s: another list: %d", name, w.Code)
		}
	}
}

// A list that takes long to make is not made for each request, and few are kept.
func TestMakingIsBounded(t *testing.T) {
	l := sample()
	lists, mux := listsOf(l)
	ask(mux, "GET", "/v1/blocklist.txt")
	for took, until := range map[time.Duration]time.Duration{100 * time.Millisecond: time.Second, time.Minute: oldest} {
		lists.files[wanted{"txt", "", "ip"}].took, lists.files[wanted{"txt", "", "ip"}].made = took, now
		asked := l.asked
		for _, later := range []time.Duration{0, until - 1, until} {
			lists.Now = func() time.Time { return now.Add(later) }
			ask(mux, "GET", "/v1/blocklist.txt")
		}
		if l.asked != asked+1 {
			t.Errorf("one that took %v was made %d times", took, l.asked-asked)
		}
	}
	for i := range 2 * maxFiles {
		lists.Now = func() time.Time { return now.Add(time.Duration(i) * time.Hour) }
		ask(mux, "GET", fmt.Sprintf("/v1/blocklist.txt?scope=f%d", i))
	}
	if last := lists.files[wanted{"txt", "", fmt.Sprintf("f%d", 2*maxFiles-1)}]; len(lists.files) != maxFiles || last == nil {
		t.Errorf("%d files are kept", len(lists.files))
	}
}

func BenchmarkText(b *testing.B) {
	l := &list{}
	for i := range 100_000 {
		l.entries = append(l.entries, blocked("per-ip", "ip", fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), time.Hour))
	}
	b.ReportAllocs()
	for b.Loop() {
		forms["txt"].make(lines(l, testRules, wanted{"txt", "", "ip"}, now.UnixMilli()), now.UnixMilli())
	}
}
