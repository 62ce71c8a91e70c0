package enforcer

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"weir/pkg/attempts"
)

const leaseRules = `
rules:
  - {name: jobs, key: user, limits: [100/min, 2 at once], lease: 1h, inline: true}
  - {name: quota, key: user, limits: [10/min], inline: true}
`

// A request occupies a limit at once until it is settled. The answers name the limit, and when the oldest lease ends.
func TestTakeUntilItIsSettled(t *testing.T) {
	kept := &keeping{}
	r := atOnce(t, func(c *Config) {
		c.Ruling.Rules = parsed(t, leaseRules)
		c.History = &History{Appender: kept, Partitions: 4}
	})
	job := `{"rules": [{"rule": "jobs", "fields": {"user": "alice"}}, {"rule": "quota", "fields": {"user": "alice"}, "cost": 3}]}`
	_, first := r.take(job)
	_, second := r.take(job)
	if first.Limit != "2 at once" || *first.Remaining != 1 || first.Rule != "jobs" || second.Attempt == "" {
		t.Fatalf("%+v, %+v", first, second)
	}

	refused := r.ask(r.client, http.MethodPost, "/v1/take", `{"rule": "jobs", "fields": {"user": "alice"}}`)
	var got takeAnswer
	refused.read(t, &got)
	if ends := time.Now().Add(time.Hour); refused.status != 429 || got.Limit != "2 at once" || got.Again == nil || ends.Sub(*got.Again).Abs() > time.Minute {
		t.Errorf("one too many: %d %s", refused.status, refused.body)
	}
	if policy := refused.Header.Get("RateLimit-Policy"); policy != `"jobs 100/min";q=100;w=60, "jobs 2 at once";q=2;qu="concurrent-requests"` {
		t.Error(policy)
	}
	if limit := refused.Header.Get("RateLimit"); !strings.HasPrefix(limit, `"jobs 2 at once";r=0;t=3`) {
		t.Error(limit)
	}

	settle := func(body string) {
		t.Helper()
		if got := r.ask(r.client, http.MethodPost, "/v1/settle", body); got.status != 200 || strings.TrimSpace(got.body) != body {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
	}
	remain := func(jobs, quota int64) {
		t.Helper()
		for rule, want := range map[string]int64{"jobs": jobs, "quota": quota} {
			if _, got := r.take(`{"rule": "` + rule + `", "fields": {"user": "alice"}, "cost": 0}`); *got.Remaining != want {
				t.Errorf("%d of %s remain, not %d", *got.Remaining, rule, want)
			}
		}
	}
	remain(0, 4)
	settle(`{"attempt":"` + first.Attempt + `"}`)
	remain(1, 4)
	settle(`{"attempt":"` + second.Attempt + `","cost":1}`)
	remain(2, 6)
	r.stop()

	ended, cost := false, int64(0)
	for _, one := range kept.records(t) {
		if one.Kind == attempts.Settlement && one.Attempt == first.Attempt {
			ended = one.Ended
		}
		if one.Kind == attempts.Settlement && one.Attempt == second.Attempt && !one.Ended {
			cost = one.Cost
		}
	}
	if !ended || cost != 1 {
		t.Errorf("the history: %v %d", ended, cost)
	}
}

// A rule whose lease changes keeps what runs.
func TestLimitsAtOnceWhenRulesChange(t *testing.T) {
	r := atOnce(t, func(c *Config) { c.Ruling.Rules = parsed(t, leaseRules) })
	_, first := r.take(`{"rule": "jobs", "fields": {"user": "alice"}}`)
	next := r.config.Ruling
	next.Rules = parsed(t, strings.Replace(leaseRules, "lease: 1h", "lease: 2h", 1))
	if err := r.Rule(next); err != nil {
		t.Fatal(err)
	}
	status, got := r.take(`{"rule": "jobs", "fields": {"user": "alice"}, "cost": 2}`)
	if ends := time.Now().Add(2 * time.Hour); status != 429 || *got.Remaining != 1 || got.Again == nil || ends.Sub(*got.Again).Abs() > time.Minute {
		t.Errorf("with another lease: %d %+v", status, got)
	}
	if got := r.ask(r.client, http.MethodPost, "/v1/settle", `{"attempt": "`+first.Attempt+`"}`); got.status != 200 {
		t.Error(got.body)
	}
	if status, got := r.take(`{"rule": "jobs", "fields": {"user": "alice"}, "cost": 2}`); status != 200 {
		t.Errorf("the first has ended: %d %+v", status, got)
	}
}
