package inlinetest

import (
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/pkg/inline"
	"weir/pkg/inline/guarded"
	"weir/pkg/window"
)

// outageLasts is WEIR_OUTAGE, such as 60s, or short.
func outageLasts(t *testing.T) time.Duration {
	text := os.Getenv("WEIR_OUTAGE")
	if text == "" {
		return time.Second
	}
	lasts, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return lasts
}

const outageBudget = 50 * time.Millisecond

// mostCleaning bounds the goroutines of a driver that close connections to a database that hangs, for some seconds.
const mostCleaning = 50

// outage is what callers got while a database was away.
type outage struct {
	mu    sync.Mutex
	wrong map[string]int
	local int64 // admitted by this process alone
	took  []time.Duration
}

// away: while the database is killed or hangs, each rule has its answer in time, no goroutine stays, and afterwards all
// that was counted before counts, and no more.
func away(t *testing.T, p *BackendPlace) {
	for _, one := range []struct {
		name  string
		begin func() (end func())
	}{{"killed", p.Kill}, {"hangs", p.Pause}} {
		if one.begin != nil {
			t.Run(one.name, func(t *testing.T) { p.away(t, one.name, one.begin) })
		}
	}
}

func (p *BackendPlace) away(t *testing.T, key string, begin func() (end func())) {
	const hits, before, share = 1000, 30, 10
	var rules []*inline.Rule
	for onError, name := range map[inline.OnError]string{inline.Allow: "allow", inline.Refuse: "refuse", inline.Local: "local"} {
		rule := perHour(t, name, hits)
		rule.OnError = onError
		if rules = append(rules, rule); onError == inline.Local {
			rule.Local = NewRule(t, name, window.Sliding, window.Limit{Hits: share, Per: time.Hour})
		}
	}
	var unanswered atomic.Int64 // attempts that the store may have counted
	g := guarded.New(guarded.Config{Store: p.store(t, Options{}), Memory: inline.New(inline.Config{}), Budget: outageBudget,
		Asked: func(_ time.Duration, err error) {
			if err != nil {
				unanswered.Add(1)
			}
		}})
	take := func(rule *inline.Rule, cost int64) (v inline.Verdict) {
		_ = g.Take(ctx, &v, []inline.Want{of(rule, key, cost)}) // it does not fail
		return v
	}
	answered := func(rule *inline.Rule) (v inline.Verdict) {
		until(t, "the store answers", func() bool { v = take(rule, 0); return v.OnError == inline.Answered })
		return v
	}
	remain := map[*inline.Rule]int64{}
	for _, rule := range rules {
		answered(rule)
		take(rule, before)
		remain[rule] = answered(rule).Taken[0].Remaining
	}

	goroutines := runtime.NumGoroutine()
	unanswered.Store(0)
	end := begin()
	for !g.Away() {
		take(rules[0], 1)
	}
	o := outage{wrong: map[string]int{}}
	o.ask(outageLasts(t), rules, take)
	if len(o.wrong) > 0 || o.local > share {
		t.Errorf("wrong answers: %v; %d are admitted of a share of %d", o.wrong, o.local, share)
	}
	slices.Sort(o.took)
	t.Logf("%d answers: p50 %v, p99.9 %v, the longest %v", len(o.took), o.took[len(o.took)/2], o.took[len(o.took)*999/1000], o.took[len(o.took)-1])
	if n := runtime.NumGoroutine(); n > goroutines+mostCleaning {
		t.Errorf("%d goroutines are left of %d answers", n-goroutines, len(o.took))
	}

	end()
	for _, rule := range rules {
		least := remain[rule] - unanswered.Load()
		if got := answered(rule).Taken[0].Remaining; got > remain[rule] || got < least {
			t.Errorf("%s: %d remained, and now %d", rule.Name, remain[rule], got)
		}
	}
	until(t, "no goroutines stay", func() bool { return runtime.NumGoroutine() <= goroutines+5 })
}

// ask has callers ask for a while.
func (o *outage) ask(lasts time.Duration, rules []*inline.Rule, take func(*inline.Rule, int64) inline.Verdict) {
	const callers = 16
	begun := time.Now()
	var running sync.WaitGroup
	for range callers {
		running.Go(func() {
			for n := 0; time.Since(begun) < lasts; n++ {
				rule, asked := rules[n%len(rules)], time.Now()
				v := take(rule, 1)
				o.add(rule, &v, time.Since(asked))
				time.Sleep(time.Millisecond)
			}
		})
	}
	running.Wait()
}

func (o *outage) add(rule *inline.Rule, v *inline.Verdict, took time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.took = append(o.took, took)
	if v.OnError != rule.OnError || rule.OnError != inline.Local && v.Admitted != (rule.OnError == inline.Allow) {
		o.wrong[rule.Name]++
	}
	if rule.OnError == inline.Local && v.Admitted {
		o.local++
	}
}

// until waits for a condition.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begin := time.Now(); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatalf("waited a minute until %s", what)
		}
	}
}
