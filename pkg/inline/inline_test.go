package inline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"weir/pkg/window"
)

var ctx = context.Background()

func newPolicy(t testing.TB, algorithm window.Algorithm, limits ...window.Limit) *window.Policy {
	t.Helper()
	p, err := window.New(window.Config{Algorithm: algorithm, Limits: limits, Block: window.Block{For: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func perMinute(t testing.TB, name string, hits int64) *Rule {
	t.Helper()
	return &Rule{Name: name, Policy: newPolicy(t, window.Sliding, window.Limit{Hits: hits, Per: time.Minute})}
}

// A clock that stands still until it is moved.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func newClock() *clock { return &clock{time.UnixMilli(1_700_000_000_000)} }

func (m *Memory) ask(wants ...Want) Verdict {
	var v Verdict
	m.Take(ctx, &v, wants)
	return v
}

func of(rule *Rule, key string, cost int64) Want {
	return Want{Rule: rule, Key: []byte(key), Cost: cost}
}

func TestTakeRefusesTheOneTooMany(t *testing.T) {
	c := newClock()
	m, rule := New(Config{Now: c.now}), perMinute(t, "quota", 3)
	for left := int64(2); left >= 0; left-- {
		if v := m.ask(of(rule, "alice", 1)); !v.Admitted || v.Attempt == (ID{}) || v.Decides != 0 || v.Taken[0].Remaining != left {
			t.Fatalf("%d should be left: %+v", left, v)
		}
		c.at = c.at.Add(time.Second)
	}
	v := m.ask(of(rule, "alice", 1))
	if v.Admitted || v.Attempt != (ID{}) || v.Taken[0].Again != c.at.Add(57*time.Second).UnixMilli() {
		t.Errorf("the fourth: %+v", v)
	}
	if v := m.ask(of(rule, "bob", 1)); !v.Admitted {
		t.Errorf("another key: %+v", v)
	}
	if v := m.ask(of(perMinute(t, "other", 3), "alice", 1)); !v.Admitted {
		t.Errorf("another rule: %+v", v)
	}
	c.at = c.at.Add(57 * time.Second)
	if v := m.ask(of(rule, "alice", 1)); !v.Admitted {
		t.Errorf("a minute after the first: %+v", v)
	}
}

// Several limits are one step: if one refuses, none counts.
func TestAllAdmitOrNoneCounts(t *testing.T) {
	m := New(Config{Now: newClock().now})
	wide, narrow, shadow := perMinute(t, "wide", 10), perMinute(t, "narrow", 2), perMinute(t, "shadow", 1)
	shadow.Shadow = true
	ask := func() Verdict { return m.ask(of(wide, "a", 3), of(shadow, "a", 1), of(narrow, "b", 1)) }

	for n := range int64(2) {
		if v := ask(); !v.Admitted || v.Decides != 2 || v.Taken[0].Remaining != 10-3*(n+1) || v.Taken[1].Admitted != (n == 0) {
			t.Fatalf("%d: %+v", n, v)
		}
	}
	for range 20 {
		v := ask()
		if v.Admitted || v.Decides != 2 || !v.Taken[0].Admitted || v.Taken[0].Remaining != 4 || v.Attempt != (ID{}) {
			t.Fatalf("refused by narrow: %+v", v)
		}
	}
	if v := m.ask(of(wide, "a", 4)); !v.Admitted {
		t.Errorf("what was refused has counted: %+v", v)
	}
}

// One key at several limits of one rule, and twice in one attempt.
func TestOneKeyTwiceInAnAttempt(t *testing.T) {
	m, rule := New(Config{Now: newClock().now}), perMinute(t, "quota", 5)
	if v := m.ask(of(rule, "a", 3), of(rule, "a", 3)); v.Admitted || v.Decides != 1 {
		t.Errorf("3 and 3 of 5: %+v", v)
	}
	if v := m.ask(of(rule, "a", 3), of(rule, "a", 2)); !v.Admitted || v.Taken[1].Remaining != 0 {
		t.Errorf("3 and 2 of 5: %+v", v)
	}
}

func TestSettle(t *testing.T) {
	c := newClock()
	m, rule := New(Config{Now: c.now}), perMinute(t, "tokens", 1000)
	v := m.ask(of(rule, "a", 800))
	if err := m.Settle(ctx, v.Attempt, 100); err != nil {
		t.Fatal(err)
	}
	if err := m.Settle(ctx, v.Attempt, 300); err != nil { // more came
		t.Fatal(err)
	}
	if got := m.ask(of(rule, "a", 0)); got.Taken[0].Remaining != 700 {
		t.Errorf("300 of 1000 are settled, and %d remain", got.Taken[0].Remaining)
	}
	if err := m.Settle(ctx, v.Attempt, 5000); err != nil {
		t.Fatal(err)
	}
	if got := m.ask(of(rule, "a", 1)); got.Admitted {
		t.Errorf("5000 of 1000 are settled: %+v", got)
	}

	again, err := ParseID(v.Attempt.String())
	if err != nil || again != v.Attempt {
		t.Errorf("%v is read as %v, %v", v.Attempt, again, err)
	}
	for _, text := range []string{"", "x", v.Attempt.String() + "0", "zz" + v.Attempt.String()[2:]} {
		if _, err := ParseID(text); !errors.Is(err, ErrUnknown) {
			t.Errorf("%q is an id: %v", text, err)
		}
	}
	other := v.Attempt
	other[7]++
	if err := m.Settle(ctx, other, 0); !errors.Is(err, ErrUnknown) {
		t.Errorf("an unknown attempt: %v", err)
	}
	c.at = c.at.Add(10 * time.Minute)
	if err := m.Settle(ctx, v.Attempt, 0); !errors.Is(err, ErrUnknown) {
		t.Errorf("after ten minutes: %v", err)
	}
}

// The real cost of a request to one limit is not its cost to another.
func TestSettleAtOneRule(t *testing.T) {
	m := New(Config{Now: newClock().now})
	quota, tokens := perMinute(t, "quota", 10), perMinute(t, "tokens", 1000)
	v := m.ask(of(quota, "a", 1), of(tokens, "a", 800))
	if err := m.SettleAt(ctx, "tokens", v.Attempt, 300); err != nil {
		t.Fatal(err)
	}
	if got := m.ask(of(quota, "a", 0), of(tokens, "a", 0)); got.Taken[0].Remaining != 9 || got.Taken[1].Remaining != 700 {
		t.Errorf("1 and 300 are settled: %+v", got)
	}
	for _, rule := range []string{"token", "tokens2", ""} {
		if err := m.SettleAt(ctx, rule, v.Attempt, 0); !errors.Is(err, ErrNotCounted) {
			t.Errorf("%q: %v", rule, err)
		}
	}
	if err := m.SettleAt(ctx, "tokens", ID{1}, 0); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
}

// A request that is asked about again, and then is of other rules or another client, counts what is new of it.
func TestTakeOnceOfMore(t *testing.T) {
	m := New(Config{Now: newClock().now})
	posts, quota, gets := perMinute(t, "posts", 5), perMinute(t, "quota", 1), perMinute(t, "gets", 1)
	id := m.IDOf("one")
	ask := func(wants ...Want) (v Verdict) {
		m.TakeOnce(ctx, &v, "one", wants)
		return v
	}
	if v := ask(of(posts, "a", 1), of(quota, "a", 1)); !v.Admitted {
		t.Errorf("%+v", v)
	}
	if v := ask(of(quota, "a", 1), of(gets, "a", 1)); !v.Admitted || v.Attempt != id || v.Taken[0].Remaining != 0 || v.Taken[1].Remaining != 0 {
		t.Errorf("after a redirect: %+v", v)
	}
	if v := ask(of(quota, "b", 1)); !v.Admitted || v.Taken[0].Remaining != 0 {
		t.Errorf("another client: %+v", v)
	}
	if v := m.ask(of(quota, "b", 1)); v.Admitted {
		t.Errorf("another client has counted nothing: %+v", v)
	}
	if s := m.Stats(); s.Attempts != 1 || s.Lost != 0 {
		t.Errorf("%+v", s)
	}
	if err := m.Settle(ctx, id, 0); err != nil {
		t.Fatal(err)
	}
	if v := m.ask(of(posts, "a", 0), of(quota, "a", 0), of(gets, "a", 0), of(quota, "b", 0)); v.Taken[0].Remaining != 5 || v.Taken[1].Remaining != 1 || v.Taken[2].Remaining != 1 || v.Taken[3].Remaining != 1 {
		t.Errorf("all is settled to 0: %+v", v)
	}
	if m.ask(of(gets, "c", 1)); ask(of(gets, "c", 1)).Admitted {
		t.Error("a known attempt is admitted by a limit that it has not counted at")
	}
}

// One id that is used for all requests takes no more memory than its last ones.
func TestOneIDForAll(t *testing.T) {
	m, rule := New(Config{Now: newClock().now, Attempts: 4 * shards}), perMinute(t, "quota", 1)
	id := m.IDOf("one")
	log := m.attempts.log(id)
	var v Verdict
	for n := range 10 * maxParts {
		m.TakeOnce(ctx, &v, "one", []Want{of(rule, fmt.Sprint(n), 1)})
		m.TakeOnce(ctx, &v, "one", []Want{of(rule, fmt.Sprint(n), 1)})
		if !v.Admitted || len(log.index) != 1 || len(log.ring[log.index[id]].parts) != n%maxParts+1 {
			t.Fatalf("%d: %+v, %d ids", n, v, len(log.index))
		}
	}
}

// Few keys are kept as well as many, although some shards get more of them than others.
func TestNoKeyIsForgottenBeforeThereAreTooMany(t *testing.T) {
	for _, keys := range []int{1000, 10_000, 50_000} {
		m, rule := New(Config{Keys: keys, Now: newClock().now}), perMinute(t, "quota", 1)
		for n := range keys * 4 / 5 {
			m.ask(of(rule, fmt.Sprint(n), 1))
		}
		if s := m.Stats(); s.Forgotten != 0 {
			t.Errorf("of %d keys, with room for %d, %d are forgotten", keys*4/5, keys, s.Forgotten)
		}
	}
}

// A request that is asked about twice is admitted by limits that its own cost has broken since.
func TestTakeOnceAfterItWasSettledToMore(t *testing.T) {
	m, rule := New(Config{Now: newClock().now}), perMinute(t, "tokens", 10)
	var v Verdict
	id := m.IDOf("one")
	if id == New(Config{}).IDOf("one") {
		t.Error("another Memory has the same id: it can be found by the name of the request")
	}
	for range 2 {
		m.TakeOnce(ctx, &v, "one", []Want{of(rule, "a", 1)})
		if !v.Admitted || !v.Taken[0].Admitted {
			t.Errorf("%+v", v)
		}
		if err := m.Settle(ctx, id, 100); err != nil {
			t.Fatal(err)
		}
	}
}

// An edge may ask twice about one request.
func TestTakeOnce(t *testing.T) {
	c := newClock()
	m, rule := New(Config{Now: c.now, Settle: time.Minute}), perMinute(t, "quota", 2)
	ask := func(request string) Verdict {
		var v Verdict
		m.TakeOnce(ctx, &v, request, []Want{of(rule, "a", 1)})
		return v
	}
	for n, request := range []string{"one", "one", "two", "one", "two"} {
		if v := ask(request); !v.Admitted || v.Attempt != m.IDOf(request) || v.Decides != 0 {
			t.Errorf("%d: %+v", n, v)
		}
	}
	for range 2 {
		if v := ask("three"); v.Admitted || v.Attempt != (ID{}) {
			t.Errorf("a third: %+v", v)
		}
	}
	if err := m.Settle(ctx, m.IDOf("one"), 0); err != nil {
		t.Error(err)
	}
	if v := ask("three"); !v.Admitted {
		t.Errorf("after one was settled to 0: %+v", v)
	}
	c.at = c.at.Add(time.Minute)
	if v := ask("one"); !v.Admitted || v.Taken[0].Remaining != 1 {
		t.Errorf("a minute later it is another: %+v", v)
	}
}

// An attempt that costs more than was thought counts, also when its key was removed in between.
func TestSettleAfterTheKeyWasRemoved(t *testing.T) {
	c := newClock()
	m := New(Config{Now: c.now, Keys: shards})
	rule := &Rule{Name: "tokens", Policy: newPolicy(t, window.Token, window.Limit{Hits: 1000, Per: time.Minute})}
	for _, asked := range []bool{false, true} {
		v := m.ask(of(rule, "a", 1))
		c.at = c.at.Add(10 * time.Second)
		for n := range 100 * shards {
			m.ask(of(rule, fmt.Sprint(n), 1))
		}
		if asked {
			m.ask(of(rule, "a", 0)) // it is made again
		}
		if err := m.Settle(ctx, v.Attempt, 2001); err != nil {
			t.Fatal(err)
		}
		if got := m.ask(of(rule, "a", 1)); got.Admitted || got.Taken[0].Again != c.at.UnixMilli()+60_060 {
			t.Errorf("2000 too many: %+v at %d", got, c.at.UnixMilli())
		}
		c.at = c.at.Add(time.Hour)
	}
	if s := m.Stats(); s.Forgotten == 0 || s.Keys > shards {
		t.Errorf("%+v", s)
	}
}

// Only so many attempts are remembered, the newest; and they are counted.
func TestAttemptsAreBounded(t *testing.T) {
	c := newClock()
	m, rule := New(Config{Now: c.now, Attempts: 4 * shards, Settle: time.Minute}), perMinute(t, "quota", 1_000_000)
	var ids []ID
	for range 40 * shards {
		ids = append(ids, m.ask(of(rule, "a", 1)).Attempt)
	}
	if s := m.Stats(); s.Attempts != 4*shards || s.Lost != 36*shards {
		t.Errorf("%+v", s)
	}
	later := map[byte]int{} // by the part of the id that says where an attempt is kept
	for _, id := range slices.Backward(ids) {
		last := id[len(id)-1]
		if known := m.Settle(ctx, id, 0) == nil; known != (later[last] < 4) {
			t.Errorf("with %d attempts behind it, one is known: %v", later[last], known)
		}
		later[last]++
	}
	c.at = c.at.Add(time.Minute)
	m.ask(of(rule, "a", 1))
	if s := m.Stats(); s.Attempts != 4*shards || s.Lost != 36*shards {
		t.Errorf("a minute later: %+v", s)
	}
}

// While there is room, an attempt can be settled for the whole time, however evenly or unevenly attempts come.
func TestAttemptsAreNotLostWhileThereIsRoom(t *testing.T) {
	c := newClock()
	m, rule := New(Config{Now: c.now, Settle: time.Minute}), perMinute(t, "quota", 1_000_000_000)
	type taken struct {
		id ID
		at time.Time
	}
	var last []taken
	for n := range 20_000 {
		last = append(last, taken{m.ask(of(rule, "a", 1)).Attempt, c.at})
		c.at = c.at.Add(100 * time.Millisecond)
		if n%5000 > 4000 { // a thousand in a second
			c.at = c.at.Add(-99 * time.Millisecond)
		}
		for len(last) > 0 && !last[0].at.After(c.at.Add(-time.Minute)) {
			last = last[1:]
		}
		if n%100 == 0 && len(last) > 0 {
			if err := m.Settle(ctx, last[0].id, 0); err != nil {
				t.Fatalf("the attempt %d of %s ago: %v", n-len(last), c.at.Sub(last[0].at), err)
			}
		}
	}
	if s := m.Stats(); s.Lost > 0 {
		t.Errorf("%+v", s)
	}
}

// Keys that count nothing any more make room before others do.
func TestKeysAreBounded(t *testing.T) {
	c := newClock()
	m, rule := New(Config{Now: c.now, Keys: 64 * shards}), perMinute(t, "quota", 3)
	for n := range 100_000 {
		m.ask(of(rule, fmt.Sprint(n), 1))
		c.at = c.at.Add(30 * time.Millisecond) // 2000 within a minute
	}
	if s := m.Stats(); s.Forgotten > 0 || s.Keys > 8*2000 {
		t.Errorf("%+v", s)
	}
	for n := range 40_000 {
		m.ask(of(rule, "more "+fmt.Sprint(n), 1))
	}
	if s := m.Stats(); s.Forgotten < 40_000-64*shards || s.Keys > 64*shards {
		t.Errorf("too many at once: %+v", s)
	}
}

// Other limits under the same name go on with what was counted.
func TestOtherLimitsGoOn(t *testing.T) {
	c := newClock()
	m := New(Config{Now: c.now})
	for range 4 {
		m.ask(of(perMinute(t, "quota", 10), "a", 1))
		c.at = c.at.Add(time.Second)
	}
	if v := m.ask(of(perMinute(t, "quota", 3), "a", 1)); v.Admitted {
		t.Errorf("4 of 3: %+v", v)
	}
	if v := m.ask(of(perMinute(t, "quota", 6), "a", 1)); !v.Admitted || v.Taken[0].Remaining != 1 {
		t.Errorf("5 of 6: %+v", v)
	}
}

// With many callers on a few keys, exactly as much as the limits allow is admitted, also when some attempts are settled
// and some want several limits at once.
func TestManyCallers(t *testing.T) {
	const callers, attempts, limit = 64, 500, 700
	c := newClock()
	m := New(Config{Now: c.now})
	rules := []*Rule{perMinute(t, "one", limit), perMinute(t, "two", limit), perMinute(t, "three", 3*limit)}
	keys := []string{"a", "b", "c"}
	var mu sync.Mutex
	spent := map[string]int64{}
	var running sync.WaitGroup
	for n := range callers {
		running.Go(func() {
			r := rand.New(rand.NewPCG(uint64(n), 1))
			var v Verdict
			for range attempts {
				var wants []Want
				for range 1 + r.IntN(3) {
					wants = append(wants, of(rules[r.IntN(len(rules))], keys[r.IntN(len(keys))], 1+r.Int64N(2)))
				}
				m.Take(ctx, &v, wants)
				if !v.Admitted {
					continue
				}
				if r.IntN(8) == 0 {
					if err := m.Settle(ctx, v.Attempt, 0); err != nil {
						t.Error(err)
					}
					continue
				}
				mu.Lock()
				for _, w := range wants {
					spent[w.Rule.Name+string(w.Key)] += w.Cost
				}
				mu.Unlock()
			}
		})
	}
	running.Wait()
	for i, rule := range rules {
		for _, key := range keys {
			most := []int64{limit, limit, 3 * limit}[i]
			v := m.ask(of(rule, key, 0))
			if n := spent[rule.Name+key]; n > most || v.Taken[0].Remaining != most-n {
				t.Errorf("%s %s: %d of %d are spent, and %d remain", rule.Name, key, n, most, v.Taken[0].Remaining)
			}
		}
	}
}

// A Memory is one window.State for each key.
func TestMemoryIsManyStates(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	c := newClock()
	m := New(Config{Now: c.now})
	var rules []*Rule
	for _, a := range window.Algorithms() {
		rules = append(rules, &Rule{Name: a.String(), Policy: newPolicy(t, a, window.Limit{Hits: 5, Per: time.Second}, window.Limit{Hits: 9, Per: 3 * time.Second})})
	}
	states := map[string]*window.State{}
	refused := 0
	for range 50_000 {
		c.at = c.at.Add(time.Duration(r.IntN(60)-3) * time.Millisecond)
		w := of(rules[r.IntN(len(rules))], fmt.Sprint("key", r.IntN(3)), 1+r.Int64N(2))
		s := states[w.Rule.Name+string(w.Key)]
		if s == nil {
			s = &window.State{}
			states[w.Rule.Name+string(w.Key)] = s
		}
		want, v := w.Rule.Policy.Take(s, c.at.UnixMilli(), w.Cost), m.ask(w)
		if got := v.Taken[0]; got != want || v.Admitted != want.Admitted {
			t.Fatalf("%s: got %+v, want %+v", w.Rule.Name, got, want)
		}
		if !want.Admitted {
			refused++
		}
	}
	if refused < 5000 {
		t.Errorf("%d were refused: the traffic shows too little", refused)
	}
}

func TestTakeAllocatesNothing(t *testing.T) {
	m, rule := New(Config{Attempts: shards}), perMinute(t, "quota", 100)
	wants := []Want{of(rule, "alice", 1), of(perMinute(t, "other", 1000), "alice", 1)}
	var v Verdict
	for range 20 * shards {
		m.Take(ctx, &v, wants)
	}
	if n := testing.AllocsPerRun(1000, func() { m.Take(ctx, &v, wants) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestIDsAreInTheOrderOfTime(t *testing.T) {
	var ids []string
	for n := range int64(100) {
		var id ID
		id.makeNew(1_700_000_000_000 + n<<20)
		ids = append(ids, id.String())
	}
	if !slices.IsSorted(ids) || len(slices.Compact(ids)) != 100 {
		t.Error(ids)
	}
}

func BenchmarkTake(b *testing.B) {
	m := New(Config{})
	rule := &Rule{Name: "quota", Policy: newPolicy(b, window.Sliding, window.Limit{Hits: 100, Per: time.Second}, window.Limit{Hits: 4000, Per: time.Minute})}
	wants := []Want{of(rule, "203.0.113.7", 1)}
	var v Verdict
	b.ReportAllocs()
	for b.Loop() {
		m.Take(ctx, &v, wants)
	}
}

func BenchmarkTakeManyKeys(b *testing.B) {
	m := New(Config{})
	rule := &Rule{Name: "quota", Policy: newPolicy(b, window.Sliding, window.Limit{Hits: 100, Per: time.Second}, window.Limit{Hits: 4000, Per: time.Minute})}
	keys := make([][]byte, 100_000)
	for i := range keys {
		keys[i] = fmt.Append(nil, "user-", i)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		var v Verdict
		wants := []Want{{Rule: rule, Cost: 1}}
		for pb.Next() {
			wants[0].Key = keys[rand.IntN(len(keys))]
			m.Take(ctx, &v, wants)
		}
	})
}

// Every key that is counted is found, however few shards there are.
func TestPeekAndAll(t *testing.T) {
	for _, keys := range []int{1, 5000, 1_000_000} {
		m, rule := New(Config{Keys: keys, Now: newClock().now}), perMinute(t, "quota", 3)
		n := min(keys, 100)
		for i := range n {
			m.ask(of(rule, fmt.Sprint(i), 1))
		}
		for i := range n {
			if known, _ := m.Peek(ctx, rule, []byte(fmt.Sprint(i)), func(s *window.State, at int64) {
				if got := rule.Policy.Count(s, 0, at); got != 1 {
					t.Errorf("of %d keys, %d has %d", keys, i, got)
				}
			}); !known {
				t.Errorf("of %d keys, %d is not found", keys, i)
			}
		}
		if known, _ := m.Peek(ctx, rule, []byte("none"), func(*window.State, int64) {}); known {
			t.Error("a key that was never asked for is found")
		}
		found := map[string]bool{}
		m.All([]*Rule{rule}, func(_ *Rule, key string, _ *window.State, _ int64) { found[key] = true })
		if len(found) != n {
			t.Errorf("of %d keys, %d are found", n, len(found))
		}
	}
}

// A request that is asked about by several goroutines at the same time counts once.
func TestTakeOnceAtTheSameTime(t *testing.T) {
	m, rule := New(Config{}), perMinute(t, "quota", 1)
	for n := range 200 {
		var running sync.WaitGroup
		request := fmt.Sprint(n)
		for range 4 {
			running.Go(func() {
				var v Verdict
				if m.TakeOnce(ctx, &v, request, []Want{of(rule, request, 1)}); !v.Admitted {
					t.Errorf("%+v", v)
				}
			})
		}
		running.Wait()
	}
}
