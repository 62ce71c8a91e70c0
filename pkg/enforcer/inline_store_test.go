package enforcer

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/store/redis/redistest"
	"weir/pkg/inline/redis"
	"weir/pkg/inline/stored"
	"weir/pkg/request"
	"weir/test/wait"
)

const sharedRules = `
rules:
  - {name: quota, key: user, limits: [100/min], inline: true}
  - {name: pay, key: user, limits: [100/min], inline: true, on_error: refuse}
  - {name: tokens, key: user, limits: [100/min], inline: true, on_error: local}
  - {name: tried, key: user, limits: [1/min], inline: true, mode: shadow, on_error: refuse}
`

// counted are enforcers that count in one Redis.
func counted(t testing.TB, server *redistest.Server, n int) (all []*running) {
	t.Helper()
	for range n {
		all = append(all, start(t, list(t), func(c *Config) {
			backend, err := redis.Open(redis.Options{URL: "redis://" + server.Addr})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { backend.Close() })
			c.Ruling.Rules = parsed(t, sharedRules)
			c.InlineStore = &InlineStore{Backend: backend, Name: server.Addr, Enforcers: 10, Budget: 100 * time.Millisecond}
		}))
	}
	return all
}

func (r *running) post(path, body string) answer {
	r.t.Helper()
	return r.ask(r.client, http.MethodPost, path, body)
}

// takes takes from a rule for a user, with a cost, and reads the answer.
func (r *running) takes(rule, user string, cost int) (answer, takeAnswer) {
	r.t.Helper()
	got := r.post("/v1/take", fmt.Sprintf(`{"rule": %q, "fields": {"user": %q}, "cost": %d}`, rule, user, cost))
	var said takeAnswer
	got.read(r.t, &said)
	return got, said
}

func TestEnforcersCountTogether(t *testing.T) {
	all := counted(t, redistest.Start(t), 2)
	var first takeAnswer
	for n := range 10 {
		got, said := all[n%2].takes("quota", "alice", 10)
		if got.status != 200 || said.Store != "ok" || said.Remaining == nil || *said.Remaining != int64(90-10*n) || got.Header.Get(storeField) != "" {
			t.Fatalf("%d: %d %s %v", n, got.status, got.body, got.Header)
		}
		if n == 0 {
			first = said
		}
	}
	for _, r := range all {
		if got, said := r.takes("quota", "alice", 1); got.status != 429 || said.Admitted || said.Store != "ok" || got.Header.Get("Retry-After") == "" {
			t.Errorf("%d %s", got.status, got.body)
		}
		if got := r.checks("203.0.113.8", "X-User", "alice"); got.status != 429 || got.Header.Get(markField) != "refused quota" {
			t.Errorf("%d %v", got.status, got.Header)
		}
	}
	if got := all[1].post("/v1/settle", fmt.Sprintf(`{"attempt": %q, "cost": 3}`, first.Attempt)); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := all[1].post("/v1/settle", `{"attempt": "00000000000000000000000000000000", "cost": 3}`); got.status != 404 {
		t.Errorf("%d %s", got.status, got.body)
	}

	var k counts
	all[1].get("/v1/keys?rule=quota&key=alice").read(t, &k)
	if k.Where != "store" || len(k.Limits) != 1 || k.Limits[0].Count != 93 {
		t.Errorf("%+v", k)
	}
	all[0].takes("quota", "bob", 100)
	all[1].takes("pay", "carol", 5)
	for path, want := range map[string]string{
		"/v1/top":           "[{quota bob 100/min 100 1} {quota alice 100/min 93 0.93} {pay carol 100/min 5 0.05}]",
		"/v1/top?n=1":       "[{quota bob 100/min 100 1}]",
		"/v1/top?rule=pay":  "[{pay carol 100/min 5 0.05}]",
		"/v1/top?rule=none": "[]",
	} {
		for _, r := range all {
			var keys []heavyKey
			got := r.get(path)
			got.read(t, &keys)
			if fmt.Sprint(keys) != want || got.Header.Get("Weir-Partial") != "" {
				t.Errorf("%s: %v", path, keys)
			}
		}
	}
}

// TestTopOfManyKeys: more keys than are looked at are shown in part, and the answer says so; those of a rule that was named
// are not in the way.
func TestTopOfManyKeys(t *testing.T) {
	server := redistest.Start(t)
	r := counted(t, server, 1)[0]
	r.takes("tokens", "alice", 5)
	many := server.Client.Pipeline()
	var cell string
	for _, key := range server.Client.Keys(t.Context(), "*}ktokens*").Val() {
		cell = server.Client.Get(t.Context(), key).Val()
	}
	for n := range stored.MostScanned + 10 {
		many.Set(t.Context(), fmt.Sprintf("weir:inline:{%04x}kpay\x00user%d", n%65536, n), cell, time.Hour)
		if many.Len() == 5000 {
			if _, err := many.Exec(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := many.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	for path, partial := range map[string]string{"/v1/top?n=3": "true", "/v1/top?n=3&rule=tokens": ""} {
		var keys []heavyKey
		got := r.get(path)
		got.read(t, &keys)
		if got.Header.Get("Weir-Partial") != partial || partial == "" && len(keys) != 1 {
			t.Errorf("%s: %v %v", path, keys, got.Header)
		}
	}

	resume := server.Pause()
	defer resume()
	if got := r.get("/v1/top"); got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, "cannot be read") {
		t.Errorf("while the store hangs: %d %s", got.status, got.body)
	}
}

// outage has many callers ask while the store is away, and returns how many answers each rule had: the status, and the
// answer without the store.
func (r *running) outage(t *testing.T, lasts time.Duration) map[string]map[string]int {
	t.Helper()
	const callers = 16
	said := map[string]map[string]int{"quota": {}, "pay": {}, "tokens": {}}
	var mu sync.Mutex
	var longest time.Duration
	var asking sync.WaitGroup
	begin := time.Now()
	for i := range callers {
		asking.Go(func() {
			for n := 0; time.Since(begin) < lasts; n++ {
				rule := []string{"quota", "pay", "tokens"}[n%3]
				asked := time.Now()
				got := r.post("/v1/take", fmt.Sprintf(`{"rule": %q, "fields": {"user": "away"}}`, rule))
				took := time.Since(asked)
				mu.Lock()
				said[rule][fmt.Sprint(got.status, " ", got.Header.Get(storeField), " ", got.Header.Get("Retry-After") != "")]++
				longest = max(longest, took)
				mu.Unlock()
				if i == 0 {
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	asking.Wait()
	t.Logf("%v, the longest answer took %v", said, longest)
	return said
}

// The store is gone for seconds, under load: each rule has its answer, no goroutine stays, and then all count again what
// had counted before.
func TestAStoreThatIsAway(t *testing.T) {
	for name, one := range map[string]struct {
		begin func(*redistest.Server) (end func())
	}{
		"killed": {begin: func(s *redistest.Server) func() { s.Kill(); return s.Restart }},
		"hangs":  {begin: func(s *redistest.Server) func() { return s.Pause() }},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
			r := counted(t, server, 1)[0]
			for _, rule := range []string{"quota", "pay", "tokens"} {
				r.takes(rule, "away", 30)
			}
			var kept takeAnswer
			_, kept = r.takes("quota", "away", 5)
			end := one.begin(server)
			r.outage(t, 500*time.Millisecond) // until the store is not asked any more
			before := runtime.NumGoroutine()
			said := r.outage(t, 3*time.Second)
			if len(said["quota"]) != 1 || said["quota"]["200 allow false"] == 0 || len(said["pay"]) != 1 || said["pay"]["503 refuse true"] == 0 {
				t.Errorf("%v", said)
			}
			if said["tokens"]["200 local false"] > 10 || said["tokens"]["429 local true"] == 0 || len(said["tokens"]) > 2 {
				t.Errorf("%v", said)
			}
			if got := r.checks("203.0.113.8", "X-User", "away"); got.status != 503 || got.Header.Get(storeField) != "refuse" || got.Header.Get(markField) != "refused pay" {
				t.Errorf("a check: %d %v %s", got.status, got.Header, got.body)
			}
			if got := r.post("/v1/settle", fmt.Sprintf(`{"attempt": %q, "cost": 1}`, kept.Attempt)); got.status != 503 {
				t.Errorf("a settlement: %d %s", got.status, got.body)
			}
			if testutil.ToFloat64(r.storeMetrics.without[1]) == 0 || testutil.ToFloat64(r.storeMetrics.failed) == 0 || !r.storeAway() {
				t.Error("the metrics do not show it")
			}
			if got := r.Status().Trouble; !strings.Contains(got, "the store of inline rules did not answer") {
				t.Errorf("the status says %q", got)
			}
			wait.Until(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before+16 })

			end()
			wait.Until(t, "the store is asked again", func() bool {
				_, said := r.takes("quota", "away", 0)
				return said.Store == "ok"
			})
			if got := r.Status().Trouble; got != "" {
				t.Errorf("the status says %q", got)
			}
			for rule, remain := range map[string]int64{"quota": 65, "pay": 70, "tokens": 70} {
				if _, said := r.takes(rule, "away", 0); said.Remaining == nil || *said.Remaining != remain {
					t.Errorf("%s: %+v", rule, said)
				}
			}
			if got := r.post("/v1/settle", fmt.Sprintf(`{"attempt": %q, "cost": 1}`, kept.Attempt)); got.status != 200 {
				t.Errorf("a settlement: %d %s", got.status, got.body)
			}
		})
	}
}

// An enforcer starts while nothing listens where the store is.
func TestAStoreThatNeverAnswered(t *testing.T) {
	server := redistest.Start(t)
	server.Kill()
	r := counted(t, server, 1)[0]
	for rule, want := range map[string]string{"quota": "200 allow", "pay": "503 refuse", "tokens": "200 local"} {
		if got := r.post("/v1/take", fmt.Sprintf(`{"rule": %q, "fields": {"user": "a"}}`, rule)); fmt.Sprint(got.status, " ", got.Header.Get(storeField)) != want {
			t.Errorf("%s: %d %v %s", rule, got.status, got.Header, got.body)
		}
	}
	// Several rules are one step, also without the store.
	got := r.post("/v1/take", `{"rules": [{"rule": "tokens", "fields": {"user": "b"}}, {"rule": "pay", "fields": {"user": "b"}}]}`)
	if got.status != 503 {
		t.Errorf("%d %s", got.status, got.body)
	}
	for n := range 11 {
		got := r.post("/v1/take", `{"rules": [{"rule": "tokens", "fields": {"user": "b"}}, {"rule": "quota", "fields": {"user": "b"}}, {"rule": "tried", "fields": {"user": "b"}}]}`)
		if want := map[bool]int{true: 200, false: 429}[n < 10]; got.status != want || got.Header.Get(storeField) != "local" {
			t.Errorf("%d: %d %v %s", n, got.status, got.Header, got.body)
		}
	}
	// Over gRPC, too, nothing is stated of a limit.
	said, answers := httptest.NewRecorder(), make([]PartAnswer, 2)
	parts := []Part{{Rule: "pay", Fields: []request.Field{{Name: "user", Value: "c"}}}, {Rule: "quota", Fields: []request.Field{{Name: "user", Value: "c"}}}}
	if err := r.Limit(said, parts, answers); err != nil || said.Code != 503 || answers[0] != (PartAnswer{Refused: true}) || answers[1] != (PartAnswer{}) {
		t.Errorf("%d %+v, %v", said.Code, answers, err)
	}

	server.Restart()
	wait.Until(t, "the store is asked", func() bool {
		_, said := r.takes("quota", "a", 0)
		return said.Store == "ok"
	})
	if err := server.Client.Ping(context.Background()).Err(); err != nil {
		t.Error(err)
	}
}
