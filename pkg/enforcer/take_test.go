package enforcer

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/pkg/blocklist"
)

const inlineRules = `
rules:
  - {name: per-ip, key: ip, limits: [1000/min]}
  - {name: quota, key: user, limits: [3/min, 100/hour], inline: true}
  - {name: sign-in, key: ip, limits: [2/min], match: 'path == "/login"', inline: true}
  - {name: tokens, key: [user, model], limits: [1000/min], algorithm: token, cost: 'int(field("tokens"))', inline: true}
  - {name: tried, key: ip, limits: [1/min], inline: true, mode: shadow}
allow: [{ip: 192.0.2.0/24}]
`

// atOnce starts an enforcer with inline rules.
func atOnce(t testing.TB, change func(*Config)) *running {
	t.Helper()
	return start(t, list(t, ofIP("203.0.113.7")), func(c *Config) {
		c.Ruling.Rules = parsed(t, strings.Replace(inlineRules, `'int(field("tokens"))'`, "1", 1))
		if change != nil {
			change(c)
		}
	})
}

func TestCheckRefusesTheOneTooMany(t *testing.T) {
	r := atOnce(t, nil)
	for n := range 3 {
		got := r.checks("203.0.113.8", "X-User", "alice")
		if got.status != 200 || got.Header.Get(attemptField) == "" {
			t.Fatalf("%d of 3: %d %v", n+1, got.status, got.Header)
		}
		if want := fmt.Sprintf(`"quota 3/min";r=%d`, 2-n); !strings.HasPrefix(got.Header.Get("RateLimit"), want) ||
			got.Header.Get("RateLimit-Policy") != `"quota 3/min";q=3;w=60, "quota 100/hour";q=100;w=3600` {
			t.Errorf("%v, want %s", got.Header, want)
		}
		if mark := got.Header.Get(markField); mark != map[bool]string{true: "", false: "shadow tried"}[n == 0] {
			t.Errorf("%d of 3: %q", n+1, mark)
		}
	}

	got := r.checks("203.0.113.8", "X-User", "alice")
	var body struct {
		Type     string
		Violated []string `json:"violated-policies"`
	}
	got.read(t, &body)
	if got.status != 429 || got.Header.Get(markField) != "refused quota" || got.Header.Get(attemptField) != "" || !strings.HasPrefix(got.Header.Get("RateLimit"), `"quota 3/min";r=0;t=`) ||
		!strings.HasSuffix(body.Type, "#quota-exceeded") || len(body.Violated) != 1 || body.Violated[0] != "quota 3/min" {
		t.Errorf("%d %v %s", got.status, got.Header, got.body)
	}
	if seconds := got.Header.Get("Retry-After"); seconds != "60" && seconds != "59" && seconds != "58" {
		t.Errorf("Retry-After: %s", seconds)
	}
	if got := r.get("/v1/check/nginx", "X-Original-Uri", "/", "X-Forwarded-For", "203.0.113.8", "X-User", "alice"); got.status != 403 {
		t.Errorf("at nginx: %d", got.status)
	}

	for name, test := range map[string]struct {
		ip      string
		headers []string
		status  int
		mark    string
	}{
		"another user":                    {"203.0.113.8", []string{"X-User", "bob"}, 200, "shadow tried"},
		"without a user":                  {"203.0.113.9", nil, 200, ""},
		"allowed by the rules":            {"192.0.2.1", []string{"X-User", "alice"}, 200, ""},
		"the list comes first":            {"203.0.113.7", []string{"X-User", "carol"}, 429, "refused per-ip"},
		"a path that another rule limits": {"203.0.113.10", []string{"X-Forwarded-Uri", "/x/../%6cogin"}, 200, ""},
	} {
		if got := r.checks(test.ip, test.headers...); got.status != test.status || got.Header.Get(markField) != test.mark {
			t.Errorf("%s: %d %q", name, got.status, got.Header.Get(markField))
		}
	}
	for rule, want := range map[string]float64{"quota": 2, "sign-in": 0} {
		if n := testutil.ToFloat64(r.Enforcer.metrics.attempts.WithLabelValues(rule, "refused")); n != want {
			t.Errorf("%v refusals of %s were counted", n, rule)
		}
	}
}

// A check in the headers of two kinds of edges counts for both clients, and neither can hide behind the other.
func TestInlineLimitsOfBothReadings(t *testing.T) {
	r := atOnce(t, nil)
	both := []string{"X-Original-Uri", "/login"}
	for range 2 {
		if got := r.checks("203.0.113.8", both...); got.status != 200 {
			t.Fatal(got.status)
		}
	}
	if got := r.checks("203.0.113.8", both...); got.status != 429 || got.Header.Get(markField) != "refused sign-in" {
		t.Errorf("%d %v", got.status, got.Header)
	}
}

// An allow for what a client claims in the headers of another kind of edge does not spare the request that it makes.
func TestAForgedReadingThatIsAllowed(t *testing.T) {
	r := atOnce(t, func(c *Config) { c.Keys = keysFile(t) })
	if got := r.order(http.MethodPost, "/v1/allows", `{"target": "host:status.example", "for": "1h", "why": "w"}`); got.status > 201 {
		t.Fatal(got.body)
	}
	ask := func() answer {
		return r.get("/v1/check", "X-Original-Uri", "/login", "X-Forwarded-Method", "GET", "X-Forwarded-Host", "status.example",
			"X-Forwarded-For", "203.0.113.8", "X-Api-Key", "read")
	}
	for range 2 {
		if got := ask(); got.status != 200 {
			t.Fatal(got.status, got.body)
		}
	}
	if got := ask(); got.status != 429 || got.Header.Get(markField) != "refused sign-in" {
		t.Errorf("the third of 2: %d %v", got.status, got.Header)
	}
}

// nginx asks again after an internal redirect: with the id of the request it counts once, for one client and rule.
func TestOneRequestIsAskedTwice(t *testing.T) {
	r := atOnce(t, func(c *Config) { c.Ruling.RequestID = "x-weir-request" })
	for n := range 6 {
		got := r.checks("203.0.113.8", "X-User", "alice", "X-Weir-Request", fmt.Sprint(n/2))
		if want := fmt.Sprintf(`"quota 3/min";r=%d`, 2-n/2); got.status != 200 || !strings.HasPrefix(got.Header.Get("RateLimit"), want) {
			t.Errorf("%d: %d %v", n, got.status, got.Header)
		}
	}
	if n := testutil.ToFloat64(r.Enforcer.metrics.attempts.WithLabelValues("quota", "admitted")); n != 3 {
		t.Errorf("3 requests are %v attempts", n)
	}
	if got := r.checks("203.0.113.8", "X-User", "alice", "X-Weir-Request", "3"); got.status != 429 {
		t.Errorf("the fourth: %d", got.status)
	}
	if got := r.checks("203.0.113.8", "X-User", "bob", "X-Weir-Request", "0"); !strings.HasPrefix(got.Header.Get("RateLimit"), `"quota 3/min";r=2`) {
		t.Errorf("another user with the same id: %v", got.Header)
	}
	// After an error, nginx asks about its page with the method GET, so other rules match.
	for n, path := range []string{"/login", "/"} {
		if got := r.checks("203.0.113.9", "X-User", "carol", "X-Weir-Request", "4", "X-Forwarded-Uri", path); got.Header.Get("RateLimit") != fmt.Sprintf(`"%s"`, []string{"sign-in 2/min", "quota 3/min"}[n])+[]string{";r=1", ";r=2"}[n] {
			t.Errorf("%s: %v", path, got.Header)
		}
	}
}

// Manual entries, a pause and shadow mode are stronger than inline limits; a list is not needed for them.
func TestInlineLimitsAndTheList(t *testing.T) {
	r := atOnce(t, func(c *Config) { c.Keys = keysFile(t) })
	exhaust := func(r *running, user string) answer {
		for range 3 {
			r.checks("203.0.113.8", "X-User", user, "X-Api-Key", "read")
		}
		return r.checks("203.0.113.8", "X-User", user, "X-Api-Key", "read")
	}
	if got := exhaust(r, "alice"); got.status != 429 {
		t.Fatal(got.status)
	}
	if got := r.order(http.MethodPost, "/v1/pause", `{"rule": "quota", "for": "1h", "why": "w"}`); got.status > 201 {
		t.Fatal(got.body)
	}
	if got := exhaust(r, "alice"); got.status != 200 || got.Header.Get(markField) != markPaused {
		t.Errorf("paused: %d %v", got.status, got.Header)
	}
	if got := r.order(http.MethodDelete, "/v1/pause?rule=quota&why=w", ""); got.status != 200 {
		t.Fatal(got.body)
	}
	if got := exhaust(r, "alice"); got.status != 429 {
		t.Errorf("resumed: %d", got.status)
	}
	if got := r.order(http.MethodPost, "/v1/allows", `{"target": "user:alice", "for": "1h", "why": "w"}`); got.status > 201 {
		t.Fatal(got.body)
	}
	if got := exhaust(r, "alice"); got.status != 200 || got.Header.Get(markField) != "allowed" {
		t.Errorf("allowed: %d %v", got.status, got.Header)
	}

	shadow := atOnce(t, func(c *Config) { c.Ruling.Shadow = true })
	if got := exhaust(shadow, "alice"); got.status != 200 {
		t.Errorf("in shadow mode: %d", got.status)
	}
	without := atOnce(t, func(c *Config) { c.Set = blocklist.NewSet(blocklist.Limits{}) })
	if got := exhaust(without, "alice"); got.status != 429 {
		t.Errorf("without a list: %d", got.status)
	}
	if got := without.checks("203.0.113.8", "X-User", "bob"); got.status != 200 || got.Header.Get(markField) != markWithoutList {
		t.Errorf("without a list: %d %v", got.status, got.Header)
	}
}

// Other rules keep what was counted; limits that stay the same keep even what was settled to more than they hold.
func TestInlineLimitsAfterAReload(t *testing.T) {
	r := atOnce(t, nil)
	for range 3 {
		r.checks("203.0.113.8", "X-User", "alice")
	}
	next := r.config.Ruling
	next.Rules = parsed(t, "rules: [{name: other, key: ip, limits: [1/min]}, {name: quota, key: user, limits: [4/min], inline: true}]")
	if err := r.Rule(next); err != nil {
		t.Fatal(err)
	}
	if got := r.checks("203.0.113.8", "X-User", "alice"); got.status != 200 || !strings.HasPrefix(got.Header.Get("RateLimit"), `"quota 4/min";r=0`) {
		t.Errorf("a fourth of 4: %d %v", got.status, got.Header)
	}
	if got := r.checks("203.0.113.8", "X-User", "alice"); got.status != 429 {
		t.Errorf("a fifth of 4: %d", got.status)
	}
	policy := r.ruling.Load().limits[1].enforced.Policy
	next.Rules = parsed(t, "rules: [{name: quota, description: the same, key: user, limits: [4/min], inline: true}]")
	if err := r.Rule(next); err != nil {
		t.Fatal(err)
	}
	if r.ruling.Load().limits[0].enforced.Policy != policy {
		t.Error("the same limits have another policy")
	}
}

type taken struct {
	Admitted  bool
	Attempt   string
	Rule      string
	Limit     string
	Remaining *int64
	Again     *time.Time
	Shadow    bool
	Allowed   bool
	Rules     []taken
	Detail    string
}

func (r *running) take(body string) (int, taken) {
	r.t.Helper()
	got := r.ask(r.client, http.MethodPost, "/v1/take", body, "X-Api-Key", "take")
	var t taken
	got.read(r.t, &t)
	return got.status, t
}

func TestTakeAndSettle(t *testing.T) {
	r := atOnce(t, func(c *Config) { c.Keys = keysFile(t) })
	var last taken
	for left := int64(2); left >= 0; left-- {
		status, got := r.take(`{"rule": "quota", "fields": {"user": "alice"}}`)
		if status != 200 || !got.Admitted || len(got.Attempt) != 32 || got.Rule != "quota" || got.Limit != "3/min" || *got.Remaining != left || got.Again == nil || got.Rules != nil {
			t.Fatalf("%d left: %d %+v", left, status, got)
		}
		last = got
	}
	status, got := r.take(`{"rule": "quota", "fields": {"user": "alice"}}`)
	if status != 429 || got.Admitted || got.Attempt != "" || *got.Remaining != 0 || time.Until(*got.Again) < 50*time.Second {
		t.Errorf("the fourth: %d %+v", status, got)
	}

	settle := func(body string) answer {
		return r.ask(r.client, http.MethodPost, "/v1/settle", body, "X-Api-Key", "take")
	}
	for range 2 { // a client that got no answer sends it again
		if got := settle(`{"attempt": "` + last.Attempt + `", "cost": 0}`); got.status != 200 || strings.TrimSpace(got.body) != `{"attempt":"`+last.Attempt+`","cost":0}` {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
	if _, got := r.take(`{"rule": "quota", "fields": {"user": "alice"}, "cost": 0}`); *got.Remaining != 1 {
		t.Errorf("after one was settled to 0: %+v", got)
	}
	if status, got := r.take(`{"rule": "quota", "fields": {"user": "alice"}, "cost": 5}`); status != 429 || got.Again != nil {
		t.Errorf("more than the limit: %d %+v", status, got)
	}

	// A client that were sent away for a year would not send the requests that are admitted either.
	tooMuch := r.ask(r.client, http.MethodPost, "/v1/take", `{"rule": "quota", "fields": {"user": "alice"}, "cost": 5}`, "X-Api-Key", "take")
	if h := tooMuch.Header; tooMuch.status != 429 || h.Get("Retry-After") != "" || h.Get("X-RateLimit-Reset") != "" || h.Get("RateLimit") != `"quota 3/min";r=1` {
		t.Errorf("more than the limit: %d %v", tooMuch.status, h)
	}

	for body, want := range map[string]int{
		`{"attempt": "", "cost": 0}`: 404, `{"attempt": "` + strings.Repeat("0", 32) + `", "cost": 0}`: 404, `{"attempt": "x"}`: 404, `{"cost": 0}`: 404, ``: 400,
		`{"attempt": "` + last.Attempt + `", "cost": -1}`: 400, `{"attempt": "` + last.Attempt + `", "cost": 1e30}`: 400, `{"id": "x", "cost": 1}`: 400,
	} {
		if got := settle(body); got.status != want {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
	}
}

func TestTakeSeveralAtOnce(t *testing.T) {
	r := atOnce(t, nil)
	both := `{"rules": [{"rule": "quota", "fields": {"user": "alice"}}, {"rule": "tokens", "fields": {"user": "alice", "model": "large"}, "cost": 400}, {"rule": "sign-in", "fields": {"ip": "192.0.2.1"}}]}`
	for range 2 {
		status, got := r.take(both)
		if status != 200 || got.Rule != "quota" || len(got.Rules) != 3 || got.Rules[1].Limit != "1000/min" || !got.Rules[2].Allowed || got.Rules[2].Remaining != nil {
			t.Fatalf("%d %+v", status, got)
		}
	}
	status, got := r.take(both)
	if status != 429 || got.Rule != "tokens" || !got.Rules[0].Admitted || *got.Rules[0].Remaining != 1 || got.Rules[1].Admitted {
		t.Errorf("%d %+v", status, got)
	}
	if status, got := r.take(`{"rule": "tried", "fields": {"ip": "203.0.113.8"}, "cost": 2}`); status != 200 || !got.Admitted || !got.Shadow {
		t.Errorf("in shadow: %d %+v", status, got)
	}
	if status, got := r.take(`{"rule": "quota", "fields": {"ip": "192.0.2.9", "user": "alice"}}`); status != 200 || !got.Allowed || got.Limit != "" {
		t.Errorf("allowed: %d %+v", status, got)
	}
}

func TestSettleAtOneRule(t *testing.T) {
	r := atOnce(t, nil)
	_, got := r.take(`{"rules": [{"rule": "quota", "fields": {"user": "alice"}}, {"rule": "tokens", "fields": {"user": "alice", "model": "large"}, "cost": 800}]}`)
	for rule, want := range map[string]int{"tokens": 200, "sign-in": 404, "nonsense": 404} {
		body := fmt.Sprintf(`{"attempt":"%s","rule":"%s","cost":300}`, got.Attempt, rule)
		if got := r.ask(r.client, http.MethodPost, "/v1/settle", body); got.status != want || want == 200 && strings.TrimSpace(got.body) != body {
			t.Errorf("%s: %d %s", rule, got.status, got.body)
		}
	}
	_, got = r.take(`{"rules": [{"rule": "quota", "fields": {"user": "alice"}, "cost": 0}, {"rule": "tokens", "fields": {"user": "alice", "model": "large"}, "cost": 0}]}`)
	if *got.Rules[0].Remaining != 2 || *got.Rules[1].Remaining != 700 {
		t.Errorf("1 and 300 are settled: %+v", got)
	}
}

func TestAttemptsThatAreNone(t *testing.T) {
	r := atOnce(t, func(c *Config) { c.Keys = keysFile(t) })
	for body, want := range map[string]string{
		``:                 "400 the body is not an attempt",
		`{}`:               "400 names no rule",
		`{"rule": "quot"}`: `404 there is no rule "quot"; did you mean quota?`,
		`{"rule": "per-ip", "fields": {"ip": "203.0.113.8"}}`: "400 the rule per-ip is not inline",
		`{"rule": "quota"}`: "400 the rule quota needs these fields: user",
		`{"rule": "quota", "fields": {"user": ""}, "cost": 1}`:                           "400 needs these fields",
		`{"rule": "sign-in", "fields": {"ip": "nowhere"}}`:                               "400 no address",
		`{"rule": "quota", "fields": {"user": "a", "status": "200"}}`:                    "400 settle",
		`{"rule": "quota", "fields": {"user": "a", "query": "b"}}`:                       "400 path",
		`{"rule": "quota", "fields": {"user": "a"}, "cost": -1}`:                         "400 the cost",
		`{"rule": "quota", "fields": {"user": "a"}, "cost": 2000000000}`:                 "400 the cost",
		`{"rule": "quota", "fields": {"user": 1}}`:                                       "400 the body is not an attempt",
		`{"rule": "quota", "fields": {"user": "a", "\u0075ser": "b"}}`:                   "400 user is there twice",
		`{"rule": "quota", "fields": {"user": "a"}, "Fields": {"user": "b"}}`:            "400 Fields is there twice",
		`{"rule": "quota", "fields": {"user": "a"}, "cost": 1, "cost": 0}`:               "400 cost is there twice",
		`{"rules": [{"rule": "quota", "rule": "sign-in", "fields": {"user": "a"}}]}`:     "400 rule is there twice",
		`{"rule": "quota", "fields": null}`:                                              "400 needs these fields",
		`{"rule": "quota", "field": {"user": "a"}}`:                                      "400 unknown field",
		`{"rule": "quota", "rules": [{"rule": "quota", "fields": {"user": "a"}}]}`:       "400 leave one of them out",
		`{"rules": [` + strings.Repeat(`{"rule": "quota"},`, 16) + `{"rule": "quota"}]}`: "400 at most 16",
		`{"rule": "` + strings.Repeat("x", maxBody) + `"}`:                               "413 ",
	} {
		status, got := r.take(body)
		if code, text, _ := strings.Cut(want, " "); fmt.Sprint(status) != code || !strings.Contains(got.Detail, text) {
			t.Errorf("%.80s: %d %s", body, status, got.Detail)
		}
	}
	for key, want := range map[string]int{"": 401, "read": 403, "write": 403, "send": 403, "take": 200, "admin": 200} {
		if got := r.ask(r.client, http.MethodPost, "/v1/take", `{"rule": "quota", "fields": {"user": "dora"}, "cost": 0}`, "X-Api-Key", key); got.status != want {
			t.Errorf("with the key %q: %d", key, got.status)
		}
	}
	if got := r.ask(r.client, http.MethodPost, "/v1/blocks", `{"target": "203.0.113.9", "why": "w"}`, "X-Api-Key", "take"); got.status != 403 {
		t.Errorf("a key for taking blocks: %d", got.status)
	}
	if got := atOnce(t, nil).ask(r.client, http.MethodPost, "/v1/take", `{"rule": "quota", "fields": {"user": "a"}}`, "Origin", "https://evil.example"); got.status != 403 {
		t.Errorf("a page in a browser: %d", got.status)
	}
}

// Inline rules show their counts in the form in which aggregators show those of others.
func TestCountsOfInlineRules(t *testing.T) {
	r := atOnce(t, func(c *Config) { c.Keys = keysFile(t) })
	for range 2 {
		r.take(`{"rule": "quota", "fields": {"user": "alice"}}`)
	}
	r.take(`{"rule": "quota", "fields": {"user": "bob"}}`)
	r.take(`{"rule": "sign-in", "fields": {"ip": "203.0.113.8"}}`)
	get := func(path string, into any) int {
		t.Helper()
		got := r.get(path, "X-Api-Key", "read")
		if got.status == 200 {
			got.read(t, into)
		}
		return got.status
	}

	var alice, carol counts
	if get("/v1/keys?rule=quota&key=alice", &alice) != 200 || alice.Where != "memory" || alice.Newest == nil || len(alice.Limits) != 2 || alice.Limits[0].Limit != "3/min" || alice.Limits[0].Count != 2 ||
		alice.Limits[0].Clears.Sub(*alice.Newest) != time.Minute || alice.Limits[1].Count != 2 || alice.Limits[1].Clears.Sub(*alice.Newest) != time.Hour {
		t.Errorf("%+v", alice)
	}
	if get("/v1/keys?rule=quota&key=carol", &carol) != 200 || carol.Where != "none" || len(carol.Limits) != 2 || carol.Limits[0].Count != 0 || carol.Limits[0].Clears != nil {
		t.Errorf("%+v", carol)
	}
	for path, want := range map[string]int{"/v1/keys?rule=per-ip&key=203.0.113.8": 400, "/v1/keys?rule=none&key=x": 404, "/v1/keys?rule=sign-in&key=nowhere": 400, "/v1/keys?rule=quota&key=x&n=1": 400, "/v1/top?n=0": 400, "/v1/top?n=1001": 400} {
		if got := get(path, nil); got != want {
			t.Errorf("%s: %d", path, got)
		}
	}
	for path, want := range map[string]string{
		"/v1/top":             "[quota alice 3/min 2 sign-in 203.0.113.8 2/min 1 quota bob 3/min 1]",
		"/v1/top?rule=quota":  "[quota alice 3/min 2 quota bob 3/min 1]",
		"/v1/top?n=1":         "[quota alice 3/min 2]",
		"/v1/top?rule=per-ip": "[]",
		"/v1/top?rule=none":   "[]",
	} {
		var keys []heavyKey
		get(path, &keys)
		shown := []any{}
		for _, one := range keys {
			shown = append(shown, one.Rule, one.Key, one.Limit, one.Count)
		}
		if fmt.Sprint(shown) != want {
			t.Errorf("%s: %v", path, shown)
		}
	}
	if got := r.get("/v1/top"); got.status != 401 {
		t.Errorf("without a key: %d", got.status)
	}
}
