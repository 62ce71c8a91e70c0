package enforcer

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir/internal/store/redis/redistest"
	"weir/pkg/attempts"
	"weir/pkg/inline"
	"weir/pkg/inline/redis"
)

const endsRules = `
rules:
  - {name: exports, key: ip, limits: [100/min, 2 at once], lease: 1h, ends: log, inline: true, match: 'path startsWith "/exports"'}
  - {name: jobs, key: ip, limits: [5 at once], lease: 1h, inline: true, match: 'path startsWith "/exports"'}
  - {name: quota, key: ip, limits: [1/min], mode: shadow, inline: true, match: 'path == "/exports/shadow"'}
  - {name: all, key: ip, limits: [1000/min], inline: true}
`

// leaseOf is the attempt that the answer to a check names for the log; empty without one.
func leaseOf(t *testing.T, got answer) (mark, id string) {
	t.Helper()
	mark = got.Header.Get(markField)
	found, ok := inline.LeaseIn(mark)
	if !ok {
		return mark, ""
	}
	if found.String() != got.Header.Get(attemptField) {
		t.Errorf("%q is not the attempt %q", mark, got.Header.Get(attemptField))
	}
	return mark, found.String()
}

func (r *running) export(path string) answer { return r.checks("203.0.113.8", "X-Forwarded-Uri", path) }

func (r *running) remaining(rule string) int64 {
	r.t.Helper()
	_, got := r.take(`{"rule": "` + rule + `", "fields": {"ip": "203.0.113.8"}, "cost": 0}`)
	return *got.Remaining
}

// A request at a rule with ends: log is named for the log, and has its place until End, or until it is settled. Other
// rules have theirs until it is settled.
func TestARequestEndsByTheLog(t *testing.T) {
	kept := &keeping{}
	r := atOnce(t, func(c *Config) {
		c.Keys, c.Ruling.Rules = keysFile(t), parsed(t, endsRules)
		c.History = &History{Appender: kept, Partitions: 4}
	})
	if mark, id := leaseOf(t, r.export("/")); mark != "" || id != "" {
		t.Errorf("a request without a place: %q", mark)
	}
	mark, first := leaseOf(t, r.export("/exports/shadow"))
	if mark != "lease "+first || first == "" {
		t.Errorf("%q", mark)
	}
	mark, second := leaseOf(t, r.export("/exports/shadow"))
	if mark != "shadow quota lease "+second || second == "" {
		t.Errorf("%q", mark)
	}
	if got := r.export("/exports"); got.status != 429 || got.Header.Get(markField) != "refused exports" {
		t.Errorf("the third: %d %v", got.status, got.Header)
	}

	ends := func(want int, ids ...string) {
		t.Helper()
		got := r.ask(r.client, http.MethodPost, "/v1/settle", `{"ended": ["`+strings.Join(ids, `", "`)+`"]}`, "X-Api-Key", "take")
		if got.status != 200 || strings.TrimSpace(got.body) != fmt.Sprintf(`{"ended":%d}`, want) {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
	ends(0, strings.Repeat("0", 32), "x", "")
	ends(1, first, strings.Repeat("1", 32))
	ends(1, first) // again
	if exports, jobs := r.remaining("exports"), r.remaining("jobs"); exports != 1 || jobs != 3 {
		t.Errorf("%d and %d remain", exports, jobs)
	}
	if got := r.export("/exports"); got.status != 200 {
		t.Errorf("after an end: %d", got.status)
	}
	if got := r.ask(r.client, http.MethodPost, "/v1/settle", `{"attempt": "`+second+`"}`, "X-Api-Key", "take"); got.status != 200 {
		t.Errorf("settled: %d %s", got.status, got.body)
	}
	ends(1, second)
	if exports, jobs := r.remaining("exports"), r.remaining("jobs"); exports != 1 || jobs != 3 {
		t.Errorf("%d and %d remain", exports, jobs)
	}

	for body, want := range map[string]int{
		`{"ended": ["` + first + `"], "cost": 0}`:                                 400,
		`{"ended": ["` + first + `"], "attempt": "` + first + `"}`:                400,
		`{"ended": ["x"` + strings.Repeat(`, "x"`, mostEnded) + `]}`:              400,
		`{"ended": ["` + strings.Repeat("x", maxBody) + `"]}`:                     413,
		`{"ended": ["x"` + strings.Repeat(`, "x"`, mostEnded-1) + `]}`:            200,
		`{"ended": ["' OR 1=1", "\u0000", "` + strings.ToUpper(first) + `", ""]}`: 200,
	} {
		if got := r.ask(r.client, http.MethodPost, "/v1/settle", body, "X-Api-Key", "take"); got.status != want {
			t.Errorf("%.60s: %d %s", body, got.status, got.body)
		}
	}
	for _, key := range []string{"read", "send", "none"} {
		if got := r.ask(r.client, http.MethodPost, "/v1/settle", `{"ended": ["`+first+`"]}`, "X-Api-Key", key); got.status != 401 && got.status != 403 {
			t.Errorf("with the key %s: %d", key, got.status)
		}
	}
	r.stop()
	n := 0
	for _, one := range kept.records(t) {
		if one.Kind == attempts.Settlement && one.Attempt == first && one.Rule == "exports" && one.Ended {
			n++
		}
	}
	if n < 2 {
		t.Errorf("the history has %d ends", n)
	}
}

// In a shared store any enforcer ends a request, and many are ended together.
func TestRequestsEndInASharedStore(t *testing.T) {
	server := redistest.Start(t)
	var all []*running
	for range 2 {
		backend, err := redis.Open(redis.Options{URL: "redis://" + server.Addr})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { backend.Close() })
		all = append(all, atOnce(t, func(c *Config) {
			c.Ruling.Rules = parsed(t, strings.ReplaceAll(strings.ReplaceAll(endsRules, "2 at once", "50 at once"), "5 at once", "100 at once"))
			c.InlineStore = &InlineStore{Backend: backend, Name: server.Addr, Enforcers: 2, Budget: 5 * time.Second}
		}))
	}
	var ids []inline.ID
	for n := range 50 {
		_, text := leaseOf(t, all[n%2].export("/exports"))
		id, err := inline.ParseID(text)
		if err != nil {
			t.Fatal(n, err)
		}
		ids = append(ids, id)
	}
	if got := all[0].export("/exports"); got.status != 429 {
		t.Errorf("one too many: %d", got.status)
	}
	if known, err := all[0].End(t.Context(), append(ids, inline.NewID(1))); known != 50 || err != nil {
		t.Errorf("%d, %v", known, err)
	}
	if left := all[1].remaining("exports"); left != 50 {
		t.Errorf("%d remain", left)
	}
	if known, err := all[1].End(t.Context(), ids[:3]); known != 3 || err != nil {
		t.Errorf("again: %d, %v", known, err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := all[0].End(canceled, ids); err == nil {
		t.Error("a call that was given up has no error")
	}
}

// An edge that gave up a request before it had the answer names the request, which ends the attempt wherever it is.
func TestARequestEndsByItsOwnID(t *testing.T) {
	server := redistest.Start(t)
	backend, err := redis.Open(redis.Options{URL: "redis://" + server.Addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { backend.Close() })
	for name, store := range map[string]*InlineStore{"memory": nil, "shared": {Backend: backend, Name: server.Addr, Enforcers: 1, Budget: 5 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			r := atOnce(t, func(c *Config) {
				c.Ruling.Rules, c.Ruling.RequestID, c.InlineStore = parsed(t, endsRules), "X-Weir-Request", store
			})
			request := inline.NewID(1)
			asks := func(request string, want int) {
				t.Helper()
				if got := r.checks("203.0.113.8", "X-Forwarded-Uri", "/exports", "X-Weir-Request", request); got.status != want {
					t.Errorf("%s: %d %v", request, got.status, got.Header)
				}
			}
			asks(request.String(), 200)
			asks(strings.Repeat("a", 32), 200)
			asks(strings.Repeat("b", 32), 429)
			if known, err := r.End(t.Context(), []inline.ID{inline.NewID(2), request}); known != 1 || err != nil {
				t.Errorf("%d, %v", known, err)
			}
			asks(strings.Repeat("b", 32), 200)
			asks(strings.Repeat("c", 32), 429)
		})
	}
}

// nginx asks twice about a page behind a password: by the address, then with the user. Whatever the second answer is, its
// line in the log gives the place of the first one back.
func TestTheSecondAnswerNamesTheAttemptOfTheFirst(t *testing.T) {
	r := atOnce(t, func(c *Config) {
		c.Keys, c.Ruling.RequestID = keysFile(t), "X-Weir-Request"
		c.Ruling.Rules = parsed(t, `
rules:
  - {name: exports, key: ip, limits: [2 at once], lease: 1h, ends: log, inline: true, match: 'path == "/exports"'}
  - {name: people, key: user, limits: [1 at once], lease: 1h, ends: log, inline: true, match: 'path == "/exports"'}
  - {name: of-user, key: user, limits: [2/min], inline: true, match: 'path == "/exports" and user == "often"'}
`)
	})
	for path, target := range map[string]string{"/v1/blocks": "user:blocked", "/v1/allows": "user:allowed"} {
		if got := r.order(http.MethodPost, path, `{"target": "`+target+`", "for": "1h", "why": "a test"}`); got.status != 201 {
			t.Fatal(got)
		}
	}
	asks := func(request, user string) (mark string, lease inline.ID) {
		mark = r.checks("203.0.113.8", "X-Forwarded-Uri", "/exports", "X-Weir-Request", request, "X-User", user).Header.Get(markField)
		lease, _ = inline.LeaseIn(mark)
		return mark, lease
	}
	if mark, lease := asks("runs on", "busy"); lease == (inline.ID{}) {
		t.Fatal(mark)
	}
	for user, begins := range map[string]string{"blocked": "refused manual lease ", "allowed": "allowed lease ", "busy": "refused people lease ", "often": ""} {
		for n := range 4 { // each would hold the other place
			request := fmt.Sprintf("%s-%d", user, n)
			_, first := asks(request, "")
			mark, second := asks(request, user)
			if first == (inline.ID{}) || second != first {
				t.Errorf("%s: the first check names %s, the second %q", request, first, mark)
			}
			if user == "often" {
				begins = map[bool]string{true: "lease ", false: "refused of-user lease "}[n < 2]
			}
			if !strings.HasPrefix(mark, begins) {
				t.Errorf("%s: %q, want %q", request, mark, begins)
			}
			if known, err := r.End(t.Context(), []inline.ID{second}); known != 1 || err != nil {
				t.Errorf("%s: %d, %v", request, known, err)
			}
		}
	}
	if got := r.checks("203.0.113.8", "X-Forwarded-Uri", "/", "X-Weir-Request", "another"); got.Header.Get(markField) != "" {
		t.Errorf("another request: %q", got.Header.Get(markField))
	}
}
