package enforcer

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/topic"
	"weir/pkg/attempts"
	"weir/pkg/inline"
	"weir/test/wait"
)

// A keeping appender keeps what it is given, unless it is full.
type keeping struct {
	gathering
	mu   sync.Mutex
	full bool
}

func (k *keeping) TrySend(messages ...topic.Message) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.full {
		return topic.Errorf(topic.ErrFull, "full")
	}
	copies := make([]topic.Message, len(messages))
	for i, m := range messages {
		m.Key, m.Value = []byte(string(m.Key)), []byte(string(m.Value)) // ours until it is done
		copies[i] = m
	}
	return k.Send(context.Background(), copies...)
}

func (k *keeping) Held() int64                 { return 0 }
func (k *keeping) Close(context.Context) error { return nil }

func (k *keeping) setFull(full bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.full = full
}

func (k *keeping) records(t *testing.T) (all []attempts.Record) {
	t.Helper()
	for _, m := range k.messages() {
		var r attempts.Record
		if err := attempts.Parse(m.Value, &r); err != nil {
			t.Fatalf("%s: %v", m.Value, err)
		}
		all = append(all, r)
	}
	return all
}

// withHistory starts an enforcer that keeps attempts.
func withHistory(t *testing.T, change func(*Config)) (*running, *keeping) {
	t.Helper()
	kept := &keeping{}
	return atOnce(t, func(c *Config) {
		c.History = &History{Appender: kept, Partitions: 4}
		if change != nil {
			change(c)
		}
	}), kept
}

// Every attempt is one record with all its rules, and so is every settlement.
func TestHistory(t *testing.T) {
	r, kept := withHistory(t, nil)
	for range 4 {
		r.checks("203.0.113.8", "X-User", "alice", "X-Forwarded-Method", "POST", "X-Forwarded-Uri", "/login?token=secret", "User-Agent", "curl")
	}
	_, last := r.take(`{"rules": [{"rule": "quota", "fields": {"user": "bob"}}, {"rule": "tokens", "fields": {"user": "bob", "model": "large"}, "cost": 400}]}`)
	r.ask(r.client, http.MethodPost, "/v1/settle", `{"attempt": "`+last.Attempt+`", "rule": "tokens", "cost": 7}`)
	r.ask(r.client, http.MethodPost, "/v1/settle", `{"attempt": "`+strings.Repeat("0", 32)+`", "cost": 7}`) // nothing was settled
	r.checks("192.0.2.1", "X-User", "alice")                                                                // the rules leave it alone
	r.checks("203.0.113.7", "X-User", "carol")                                                              // refused by the list
	r.stop()

	got := kept.records(t)
	var orders []uint64
	var lines []string
	for i := range got {
		orders = append(orders, got[i].Order)
		verdicts := ""
		for _, take := range got[i].Takes {
			verdicts += fmt.Sprintf(" %s=%s:%s/%d/%s/%d", take.Rule, take.Key, take.Verdict, take.Cost, take.Limit, take.Remaining)
		}
		lines = append(lines, fmt.Sprintf("%s %v%s", got[i].Kind, got[i].Admitted, verdicts))
	}
	sorted := cmpopts.SortSlices(func(a, b string) bool { return a < b })
	if diff := cmp.Diff([]string{
		"attempt true quota=alice:admitted/1/3/min/2 sign-in=203.0.113.8:admitted/1/2/min/1 tried=203.0.113.8:admitted/1/1/min/0",
		"attempt true quota=alice:admitted/1/3/min/1 sign-in=203.0.113.8:admitted/1/2/min/0 tried=203.0.113.8:shadow/1/1/min/0",
		"attempt false quota=alice:other/1/3/min/1 sign-in=203.0.113.8:refused/1/2/min/0 tried=203.0.113.8:shadow/1/1/min/0",
		"attempt false quota=alice:other/1/3/min/1 sign-in=203.0.113.8:refused/1/2/min/0 tried=203.0.113.8:shadow/1/1/min/0",
		"attempt true quota=bob:admitted/1/3/min/2 tokens=bob large:admitted/400/1000/min/600",
		"settlement false",
	}, lines, sorted); diff != "" {
		t.Error(diff)
	}

	first := got[0]
	if first.IP != "203.0.113.8" || first.User != "alice" || first.Method != http.MethodPost || first.Path != "/login?token=***" || first.Agent != "curl" ||
		len(first.Attempt) != 32 || first.Time == 0 || len(first.From) != 16 || first.Sequence != 1 {
		t.Errorf("%+v", first)
	}
	for _, m := range kept.messages() {
		if strings.Contains(string(m.Value), "secret") {
			t.Errorf("a secret is in %s", m.Value)
		}
	}
	if n := len(orders); n != 6 || orders[0] != 1 {
		t.Errorf("orders %v", orders)
	}
	for _, one := range got {
		if one.Kind == attempts.Settlement && (one.Attempt != last.Attempt || one.Rule != "tokens" || one.Cost != 7 || one.Order != 6) {
			t.Errorf("%+v", one)
		}
	}
}

// A pause, the shadow of a whole process, and a request that is asked about twice have verdicts of their own.
func TestVerdictsOfAHistory(t *testing.T) {
	ask := func(change func(*Config), before func(*running)) string {
		r, kept := withHistory(t, change)
		if before != nil {
			before(r)
		}
		for n := range 4 {
			r.checks("203.0.113.8", "X-User", "alice", "X-Weir-Request", fmt.Sprint("request ", n/2))
		}
		r.stop()
		all := ""
		for _, one := range kept.records(t) {
			all += " " + one.Takes[0].Verdict
		}
		return all
	}
	if got := ask(func(c *Config) { c.Ruling.RequestID = "X-Weir-Request" }, nil); got != " admitted known admitted known" {
		t.Errorf("asked about twice:%s", got)
	}
	narrow := func(c *Config) {
		c.Ruling.Rules = parsed(t, `rules: [{name: quota, key: user, limits: [3/min], inline: true}]`)
	}
	if got := ask(func(c *Config) { narrow(c); c.Ruling.Shadow = true }, nil); got != " admitted admitted admitted shadow" {
		t.Errorf("in shadow:%s", got)
	}
	if got := ask(narrow, nil); got != " admitted admitted admitted refused" {
		t.Errorf("enforced:%s", got)
	}
	paused := func(r *running) {
		if got := r.ask(r.overSocket(), http.MethodPost, "/v1/pause", `{"rule": "quota", "for": "1h", "why": "w"}`); got.status >= 300 {
			t.Fatalf("%d %s", got.status, got.body)
		}
	}
	if got := ask(narrow, paused); got != " admitted admitted admitted paused" {
		t.Errorf("paused:%s", got)
	}
}

// While a shared store fails, no attempt is refused by its rule: it must not lead to a block.
func TestAttemptsWithoutTheirStore(t *testing.T) {
	r, kept := withHistory(t, nil)
	ruling := r.ruling.Load()
	i, err := ruling.inlineRule("quota")
	if err != nil {
		t.Fatal(err)
	}
	for _, on := range []inline.OnError{inline.Allow, inline.Refuse, inline.Local} {
		a := ruling.askings.Get().(*asking)
		a.attempt.reset()
		a.attempt.addAlways(i, ruling.limits[i].enforced, []byte("alice"), 1)
		a.attempt.verdict.Begin(a.attempt.wants)
		a.attempt.verdict.Taken[0].Admitted, a.attempt.verdict.Admitted, a.attempt.verdict.OnError = on != inline.Refuse, on != inline.Refuse, on
		r.history.attempted(ruling, &a.attempt, 1_772_524_800_000)
	}
	r.stop()
	all := ""
	for _, one := range kept.records(t) {
		all += fmt.Sprintf(" %s=%s", one.Store, one.Takes[0].Verdict)
	}
	if all != " allow=failed refuse=failed local=admitted" {
		t.Error(all)
	}
}

// While the topic takes nothing, requests are answered all the same, what is lost is counted, and the rest comes later.
func TestAFullHistoryDelaysNothing(t *testing.T) {
	r, kept := withHistory(t, nil)
	kept.setFull(true)
	e, wants := r.Enforcer, historyLines+historyBatch+1000
	ruling := e.ruling.Load()
	a := ruling.askings.Get().(*asking)
	i, err := ruling.inlineRule("quota")
	if err != nil {
		t.Fatal(err)
	}
	for n := range wants {
		a.attempt.reset()
		a.attempt.addAlways(i, ruling.limits[i].enforced, fmt.Append(nil, n), 1)
		e.take(ruling, &a.attempt)
	}
	lost := int(testutil.ToFloat64(e.history.dropped))
	if lost < 1000-historyBatch {
		t.Errorf("%d of %d are lost", lost, wants)
	}
	kept.setFull(false)
	r.stop()
	if n := len(kept.messages()); n+lost != wants {
		t.Errorf("%d are there and %d lost, of %d", n, lost, wants)
	}
	if held := e.history.held.Load(); held != 0 {
		t.Errorf("%d bytes are in an empty queue", held)
	}
}

// Many attempts at once make as many records: what one has used is used again only when its record is written.
func TestAHistoryOfManyAttempts(t *testing.T) {
	const waves, callers, each = 5, 8, 40
	r, kept := withHistory(t, nil)
	ruling := r.Enforcer.ruling.Load()
	i, err := ruling.inlineRule("quota")
	if err != nil {
		t.Fatal(err)
	}
	for wave := range waves {
		var running sync.WaitGroup
		for caller := range callers {
			running.Go(func() {
				a := ruling.askings.Get().(*asking)
				for n := range each {
					a.attempt.reset()
					a.attempt.addAlways(i, ruling.limits[i].enforced, fmt.Appendf(nil, "%d-%d-%d", wave, caller, n), 1)
					r.Enforcer.take(ruling, &a.attempt)
				}
			})
		}
		running.Wait()
		wait.Until(t, "the records of a wave", func() bool { return len(kept.messages()) == (wave+1)*callers*each })
	}
	r.stop()
	keys, orders := map[string]bool{}, map[uint64]bool{}
	for _, record := range kept.records(t) {
		keys[record.Takes[0].Key], orders[record.Order] = true, true
	}
	if len(keys) != waves*callers*each || len(orders) != len(keys) {
		t.Errorf("%d keys and %d orders of %d attempts", len(keys), len(orders), waves*callers*each)
	}
}

// A value of a query is never shown, whatever characters stand around it.
func TestAHistoryHasNoValuesOfQueries(t *testing.T) {
	for query, want := range map[string]string{
		"token=secret":              "token=***",
		"f={1}&token=secret":        "f=***&token=***",
		`f="&token=secret;b=secret`: "f=***&token=***;b=***",
		"f=a b&token=secret&":       "f=***&token=***&",
		`{"'< \=secret&&flag`:       `{"'< \=***&&flag`,
		"a=b=secret?c=secret":       "a=***",
	} {
		if got := shownPath("/p", query); got != "/p?"+want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	if long := shownPath("/p", strings.Repeat("a=secret&", 100_000)); len(long) > 210 || strings.Contains(long, "secret") {
		t.Error(long)
	}
}

// Records that are written together, and the lines that are used again for later ones, have each its own attempt.
func TestRecordsOfAHistoryAreDistinct(t *testing.T) {
	r, kept := withHistory(t, func(c *Config) {
		c.Ruling.Rules = parsed(t, "rules: [{name: quota, key: user, limits: [1000000/min], inline: true}]")
	})
	const callers, each = 16, 100
	var running sync.WaitGroup
	for i := range callers {
		running.Go(func() {
			for n := range each {
				r.take(fmt.Sprintf(`{"rule": "quota", "fields": {"user": "%d of %d"}}`, n, i))
			}
		})
	}
	running.Wait()
	r.stop()
	users, ids := map[string]bool{}, map[string]bool{}
	for _, one := range kept.records(t) {
		users[one.User], ids[one.Attempt] = true, true
	}
	if len(users) != callers*each || len(ids) != callers*each {
		t.Errorf("%d users and %d attempts of %d", len(users), len(ids), callers*each)
	}
}
