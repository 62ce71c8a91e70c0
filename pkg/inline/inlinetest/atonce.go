package inlinetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/pkg/inline"
	"weir/pkg/window"
)

// NewRuleAtOnce makes a rule that admits some hits at once, each for a lease at most, next to other limits.
func NewRuleAtOnce(t testing.TB, name string, algorithm window.Algorithm, hits int64, lease time.Duration, limits ...window.Limit) *inline.Rule {
	t.Helper()
	limits = append(limits, window.Limit{Hits: hits, Per: lease})
	p, err := window.New(window.Config{Algorithm: algorithm, Limits: limits, AtOnce: []int{len(limits) - 1}, Block: window.Block{For: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	return &inline.Rule{Name: name, Policy: p}
}

// atOnce: an attempt occupies its cost until it is settled, whatever to, and once only.
func atOnce(t *testing.T, p *Place) {
	rules := Rules{
		NewRuleAtOnce(t, "jobs", window.Token, 3, time.Hour, window.Limit{Hits: 100, Per: time.Hour}), perHour(t, "quota", 50),
		NewRuleAtOnce(t, "calls", window.Sliding, 2, time.Hour), NewRule(t, "later", window.Sliding, window.Limit{Hits: 1, Per: time.Hour}),
	}
	jobs, quota, calls, later := rules[0], rules[1], rules[2], rules[3]
	all := p.processes(2, Options{Rule: rules.Find})
	s, other := all[0], all[len(all)-1]
	// remain checks what is left: of jobs at once, of calls at once, and of quota.
	remain := func(step string, ofJobs, ofCalls, ofQuota int64) {
		t.Helper()
		v := askFor(t, s, of(jobs, "a", 0), of(calls, "a", 0), of(quota, "a", 0))
		if v.Taken[0].Remaining != ofJobs || v.Taken[1].Remaining != ofCalls || v.Taken[2].Remaining != ofQuota {
			t.Errorf("%s: %+v, not %d, %d and %d", step, v.Taken, ofJobs, ofCalls, ofQuota)
		}
	}

	first := askFor(t, s, of(jobs, "a", 1), of(calls, "a", 1), of(quota, "a", 5))
	second := askFor(t, other, of(jobs, "a", 2))
	remain("two run", 0, 1, 45)
	v := askFor(t, other, of(jobs, "a", 1))
	if v.Admitted || v.Taken[0].Limit != 1 || v.Taken[0].Again != first.Taken[0].At+time.Hour.Milliseconds() {
		t.Errorf("one too many, and the oldest lease ends at %d: %+v", first.Taken[0].At+time.Hour.Milliseconds(), v)
	}
	if v := askFor(t, s, of(jobs, "a", 4)); v.Admitted || v.Taken[0].Again != window.Never {
		t.Errorf("more than there ever can be: %+v", v)
	}

	for _, step := range []struct {
		rule                  string // empty: all
		attempt               inline.ID
		cost                  int64
		jobs, calls, ofQuotas int64
	}{
		{"quota", first.Attempt, 7, 0, 1, 43},
		{"calls", first.Attempt, 1, 0, 2, 43},
		{"", first.Attempt, inline.Kept, 1, 2, 43},
		{"", first.Attempt, inline.Kept, 1, 2, 43},
		{"", first.Attempt, 9, 1, 2, 41},
		{"jobs", first.Attempt, 0, 1, 2, 41},
		{"", second.Attempt, 80, 3, 2, 41},
		{"", second.Attempt, 0, 3, 2, 41},
	} {
		err := other.SettleAt(ctx, step.rule, step.attempt, step.cost)
		if step.rule == "" {
			err = other.Settle(ctx, step.attempt, step.cost)
		}
		if err != nil {
			t.Fatalf("%+v: %v", step, err)
		}
		remain(fmt.Sprintf("%+v", step), step.jobs, step.calls, step.ofQuotas)
	}

	// An attempt that another rule refuses occupies nothing.
	askFor(t, s, of(later, "a", 1))
	for range 5 {
		if v := askFor(t, s, of(jobs, "a", 3), of(later, "a", 1)); v.Admitted {
			t.Errorf("another rule refuses: %+v", v)
		}
	}
	remain("refused", 3, 2, 41)

	// A request that is asked about twice occupies once.
	r := requests{TB: t, all: all}
	id := r.ask("one", of(jobs, "a", 1)).Attempt
	r.ask("one", of(jobs, "a", 1))
	remain("asked about twice", 2, 2, 41)
	if err := s.Settle(ctx, id, inline.Kept); err != nil {
		t.Error(err)
	}
	r.ask("one", of(jobs, "a", 1))
	remain("asked about twice, and settled", 3, 2, 41)
}

// leaseEnds: an attempt that is not settled occupies its cost for the lease, and what comes later is not freed by it.
func leaseEnds(t *testing.T, p *Place) {
	const lease = 300 * time.Millisecond
	rules := Rules{NewRuleAtOnce(t, "jobs", window.Sliding, 2, lease)}
	jobs, all := rules[0], p.processes(2, Options{Rule: rules.Find})
	s, other := all[0], all[len(all)-1]
	one := askFor(t, s, of(jobs, "a", 1))
	second := askFor(t, other, of(jobs, "a", 1))
	refused, again := 0, inline.Verdict{}
	for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(time.Millisecond) {
		if again = askFor(t, s, of(jobs, "a", 1)); again.Admitted {
			break
		}
		refused++
	}
	if refused == 0 || again.Taken[0].At < one.Taken[0].At+lease.Milliseconds() {
		t.Fatalf("admitted at %d, %d, after %d were refused: %+v", one.Taken[0].At, again.Taken[0].At, refused, again)
	}

	for !time.Now().After(time.UnixMilli(second.Taken[0].At).Add(lease)) {
		time.Sleep(time.Millisecond)
	}
	askFor(t, other, of(jobs, "a", 1))
	for range 2 {
		if err := other.Settle(ctx, one.Attempt, inline.Kept); err != nil {
			t.Fatal(err)
		}
		if v := askFor(t, s, of(jobs, "a", 1)); v.Admitted && v.Taken[0].At < again.Taken[0].At+lease.Milliseconds() {
			t.Errorf("an attempt whose lease was over has freed another: %+v", v)
		}
	}
}

// A span is the time in which an attempt may occupy its limit: from when the store admitted it to when the caller knew that
// it was settled.
type span struct{ from, until int64 }

// atOnceCallers: never are more than the limit between an admission and its settlement, and none is refused while fewer are.
func atOnceCallers(t *testing.T, p *Place) {
	const most = 8
	rules := Rules{NewRuleAtOnce(t, "jobs", window.Sliding, most, time.Hour)}
	for _, n := range []int{1, 4} {
		all, key := p.processes(n, Options{Rule: rules.Find}), fmt.Sprint("of ", n)
		var mu sync.Mutex
		var admitted []span
		var refused []int64
		var now atomic.Int64
		var running sync.WaitGroup
		begin := time.Now()
		for i := range callers {
			running.Go(func() {
				r := rand.New(rand.NewPCG(uint64(i), 9))
				for time.Since(begin) < time.Second {
					v := askFor(t, all[i%len(all)], of(rules[0], key, 1))
					if !v.Admitted {
						mu.Lock()
						refused = append(refused, v.Taken[0].At)
						mu.Unlock()
						time.Sleep(rand.N(time.Millisecond))
						continue
					}
					if n := now.Add(1); n > most {
						t.Errorf("%d run at once", n)
					}
					time.Sleep(rand.N(4 * time.Millisecond))
					now.Add(-1)
					if err := all[r.IntN(len(all))].Settle(ctx, v.Attempt, r.Int64N(3)-1); err != nil {
						t.Error(err)
					}
					mu.Lock()
					admitted = append(admitted, span{v.Taken[0].At, time.Now().UnixMilli() + 1})
					mu.Unlock()
				}
			})
		}
		running.Wait()
		for _, at := range refused {
			ran := 0
			for _, one := range admitted {
				if one.from <= at && at <= one.until {
					ran++
				}
			}
			if ran < most {
				t.Errorf("one is refused at %d, while only %d run", at, ran)
			}
		}
		if len(admitted) < 5*most || len(refused) < most {
			t.Errorf("%d admitted, %d refused: the traffic shows too little", len(admitted), len(refused))
		}
		if v := askFor(t, all[0], of(rules[0], key, 0)); v.Taken[0].Remaining != most {
			t.Errorf("all have ended: %+v", v)
		}
	}
}

// leaseOverSettle: an attempt that is too old to be settled still occupies its cost until its lease ends.
func leaseOverSettle(t *testing.T, p *Place) {
	rules := Rules{NewRuleAtOnce(t, "jobs", window.Sliding, 1, time.Hour)}
	s := p.Open(Options{Rule: rules.Find, Settle: 300 * time.Millisecond})
	one := askFor(t, s, of(rules[0], "a", 1))
	time.Sleep(400 * time.Millisecond)
	if err := s.Settle(ctx, one.Attempt, inline.Kept); !errors.Is(err, inline.ErrUnknown) {
		t.Errorf("too late: %v", err)
	}
	if v := askFor(t, s, of(rules[0], "a", 1)); v.Admitted || v.Taken[0].Again != one.Taken[0].At+time.Hour.Milliseconds() {
		t.Errorf("it has not ended: %+v", v)
	}
}
