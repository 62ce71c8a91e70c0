package inlinetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"weir/pkg/inline"
	"weir/pkg/window"
)

func settled(t *testing.T, p *Place) {
	rules := Rules{perHour(t, "quota", 10), perHour(t, "tokens", 1000), NewRule(t, "bucket", window.Token, window.Limit{Hits: 100, Per: time.Hour})}
	quota, tokens, bucket := rules[0], rules[1], rules[2]
	all := p.processes(2, Options{Rule: rules.Find, Settle: 2 * time.Second})
	s, other := all[0], all[len(all)-1]
	v := askFor(t, s, of(quota, "a", 1), of(tokens, "a", 800), of(bucket, "a", 1))
	for _, step := range []struct {
		rule                  string // empty: all
		cost                  int64
		quota, tokens, bucket int64 // remain
	}{
		{"tokens", 100, 9, 900, 99},
		{"tokens", 300, 9, 700, 99},
		{"", 5, 5, 995, 95},
		{"bucket", 150, 5, 995, 0},
		{"bucket", 7, 5, 995, 93},
		{"quota", 50, 0, 995, 93},
		{"", 0, 10, 1000, 100},
	} {
		err := other.SettleAt(ctx, step.rule, v.Attempt, step.cost)
		if step.rule == "" {
			err = other.Settle(ctx, v.Attempt, step.cost)
		}
		if err != nil {
			t.Fatalf("%+v: %v", step, err)
		}
		got := askFor(t, s, of(quota, "a", 0), of(tokens, "a", 0), of(bucket, "a", 0))
		if got.Taken[0].Remaining != step.quota || got.Taken[1].Remaining != step.tokens || got.Taken[2].Remaining != step.bucket {
			t.Errorf("%+v: %+v", step, got)
		}
	}

	if err := other.SettleAt(ctx, "token", v.Attempt, 0); !errors.Is(err, inline.ErrNotCounted) {
		t.Errorf("at another rule: %v", err)
	}
	if err := s.Settle(ctx, inline.ID{7}, 0); !errors.Is(err, inline.ErrUnknown) {
		t.Errorf("an unknown attempt: %v", err)
	}
	if v := askFor(t, s, of(quota, "a", 11)); v.Admitted || v.Attempt != (inline.ID{}) || v.Taken[0].Again != window.Never {
		t.Errorf("more than the limit: %+v", v)
	}
	late := askFor(t, s, of(quota, "late", 1))
	time.Sleep(2100 * time.Millisecond)
	if err := other.Settle(ctx, late.Attempt, 0); !errors.Is(err, inline.ErrUnknown) {
		t.Errorf("too late: %v", err)
	}
}

// A requests asks about requests, each time another Store.
type requests struct {
	testing.TB
	all  []inline.Store
	turn int
}

func (r *requests) ask(request string, wants ...inline.Want) (v inline.Verdict) {
	r.Helper()
	r.turn++
	if err := r.all[r.turn%len(r.all)].TakeOnce(ctx, &v, request, wants); err != nil {
		r.Fatal(err)
	}
	return v
}

func once(t *testing.T, p *Place) {
	rules := Rules{perHour(t, "posts", 5), perHour(t, "quota", 2), perHour(t, "gets", 1)}
	posts, quota, gets := rules[0], rules[1], rules[2]
	r := requests{TB: t, all: p.processes(2, Options{Rule: rules.Find})}
	first := r.ask("one", of(quota, "a", 1))
	for n := range 4 {
		wants := []inline.Want{of(quota, "a", 1)}
		if v := r.ask("one", wants...); !v.Admitted || !wants[0].Known || v.Attempt != first.Attempt || v.Taken[0].Remaining != 1 {
			t.Errorf("%d: %+v", n, v)
		}
	}
	if ids, err := r.all[0].IDsOf(ctx, "one"); err != nil || !slices.Contains(ids, first.Attempt) {
		t.Errorf("the attempt of one is %s, not %v, %v", first.Attempt, ids, err)
	}
	if v := r.ask("two", of(quota, "a", 1)); !v.Admitted || v.Attempt == first.Attempt {
		t.Errorf("two: %+v", v)
	}
	for range 2 {
		if v := r.ask("three", of(quota, "a", 1)); v.Admitted || v.Attempt != (inline.ID{}) {
			t.Errorf("a third: %+v", v)
		}
	}
	for _, cost := range []int64{5, 0} {
		if err := r.all[0].Settle(ctx, first.Attempt, cost); err != nil {
			t.Error(err)
		}
		if v := r.ask("one", of(quota, "a", 1)); !v.Admitted {
			t.Errorf("one has broken the limit by its own cost: %+v", v)
		}
	}
	if v := r.ask("three", of(quota, "a", 1)); !v.Admitted {
		t.Errorf("after one was settled to 0: %+v", v)
	}

	// A request that is asked about again, and then is of other rules, counts what is new of it.
	more := r.ask("more", of(posts, "a", 1), of(quota, "b", 1))
	if v := r.ask("more", of(quota, "b", 1), of(gets, "a", 1)); !v.Admitted || v.Attempt != more.Attempt || v.Taken[0].Remaining != 1 || v.Taken[1].Remaining != 0 {
		t.Errorf("after a redirect: %+v", v)
	}
	if err := r.all[len(r.all)-1].Settle(ctx, more.Attempt, 0); err != nil {
		t.Error(err)
	}
	if v := askFor(t, r.all[0], of(posts, "a", 0), of(quota, "b", 0), of(gets, "a", 0)); v.Taken[0].Remaining != 5 || v.Taken[1].Remaining != 2 || v.Taken[2].Remaining != 1 {
		t.Errorf("all is settled to 0: %+v", v)
	}
	if v := r.ask("refused", of(posts, "b", 1), of(gets, "b", 2)); v.Admitted || v.Attempt != (inline.ID{}) {
		t.Errorf("%+v", v)
	}
	if v := r.ask("refused", of(posts, "b", 1)); !v.Admitted || v.Taken[0].Remaining != 4 {
		t.Errorf("what was refused has counted: %+v", v)
	}
}

// onceOfMadeKeys: a client chooses a part of a key, as its agent, so that the xxhash64 of both keys with their rules is
// the same. Both count.
func onceOfMadeKeys(t *testing.T, p *Place) {
	quota, agents := perHour(t, "quota", 2), perHour(t, "per-agent", 5)
	r := requests{TB: t, all: p.processes(2, Options{Rule: Rules{quota, agents}.Find})}
	const client, made = "203.0.113.7", "203.0.113.7 RfDwgYIesB0iuuXGZ"
	for n, admitted := range []bool{true, true, false} {
		if v := r.ask(fmt.Sprint("request ", n), of(quota, client, 1), of(agents, made, 1)); v.Admitted != admitted {
			t.Errorf("request %d: %+v", n, v)
		}
	}
	if v := askFor(t, r.all[0], of(quota, client, 0), of(agents, made, 0)); v.Taken[0].Remaining != 0 || v.Taken[1].Remaining != 3 {
		t.Errorf("what remains: %+v", v)
	}
}

// onceForMany: many ask about one request at the same time.
func onceForMany(t *testing.T, p *Place) {
	posts, quota := perHour(t, "posts", 5), perHour(t, "quota", 2)
	all := p.processes(2, Options{})
	var running sync.WaitGroup
	for i := range callers {
		running.Go(func() {
			var v inline.Verdict
			if err := all[i%len(all)].TakeOnce(ctx, &v, "many", []inline.Want{of(posts, "a", 1), of(quota, "a", 1)}); err != nil || !v.Admitted {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
	running.Wait()
	if v := askFor(t, all[0], of(posts, "a", 0), of(quota, "a", 0)); v.Taken[0].Remaining != 4 || v.Taken[1].Remaining != 1 {
		t.Errorf("many asked about one request: %+v", v)
	}
}
