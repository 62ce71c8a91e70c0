package inlinetest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"weir/pkg/inline"
	"weir/pkg/window"
)

// A twin counts in windows that it asks directly, at the instants at which a Store has decided.
type twin map[string]*window.State

func (w twin) state(of *inline.Want) *window.State {
	name := of.Rule.Name + " " + string(of.Key)
	if w[name] == nil {
		w[name] = &window.State{}
	}
	return w[name]
}

// take is Store.Take, slow and obvious.
func (w twin) take(wants []inline.Want, got []window.Taken) (taken []window.Taken, admitted bool) {
	admitted = true
	for i := range wants {
		one := wants[i].Rule.Policy.Take(w.state(&wants[i]), got[i].At, wants[i].Cost)
		admitted = admitted && (one.Admitted || wants[i].Rule.Shadow)
		taken = append(taken, one)
	}
	for i := range taken {
		if t := &taken[i]; !admitted && t.Admitted && wants[i].Cost > 0 {
			wants[i].Rule.Policy.TakeBack(w.state(&wants[i]), t.At, t.At, wants[i].Cost)
			t.Remaining, t.Again = t.Remaining+wants[i].Cost, t.At
		}
	}
	return taken, admitted
}

// An openAttempt can be settled.
type openAttempt struct {
	id    inline.ID
	wants []inline.Want
	taken []window.Taken
}

// settle settles an attempt, and finds by what the Store shows when that was.
func (w twin) settle(t testing.TB, s inline.Store, a *openAttempt, cost int64) {
	t.Helper()
	if err := s.Settle(ctx, a.id, cost); err != nil {
		t.Fatal(err)
	}
	for i := range a.wants {
		one, taken, now := &a.wants[i], a.taken[i], int64(0)
		if !taken.Admitted || one.Cost < 1 {
			continue
		}
		if _, err := s.Peek(ctx, one.Rule, one.Key, func(s *window.State, _ int64) { now = s.Newest() }); err != nil {
			t.Fatal(err)
		}
		if now == 0 { // it counts nothing any more
			delete(w, one.Rule.Name+" "+string(one.Key))
			continue
		}
		one.Rule.Policy.End(w.state(one), now, taken.At, one.Cost)
		if cost != inline.Kept {
			one.Rule.Policy.Settle(w.state(one), now, taken.At, one.Cost, cost)
		}
	}
}

// sameAsWindows makes random attempts, one after another: of all algorithms, at several limits and keys, in shadow, with
// costs that are settled later.
func sameAsWindows(t *testing.T, p *Place) {
	var rules Rules
	for _, a := range window.Algorithms() {
		for _, shadow := range []bool{false, true} {
			rule := NewRule(t, fmt.Sprint(a, shadow), a, window.Limit{Hits: 5, Per: 60 * time.Millisecond}, window.Limit{Hits: 9, Per: 150 * time.Millisecond})
			rule.Shadow = shadow
			atOnce := NewRuleAtOnce(t, fmt.Sprint(a, shadow, "at once"), a, 4, 100*time.Millisecond, window.Limit{Hits: 9, Per: 150 * time.Millisecond})
			atOnce.Shadow = shadow
			rules = append(rules, rule, atOnce)
		}
	}

	s, w := p.Open(Options{Rule: rules.Find}), twin{}
	r := rand.New(rand.NewPCG(7, 8))
	var open []openAttempt
	admitted, refused, settles := 0, 0, 0
	attempts := cmp.Or(p.Attempts, 4000)
	for n := range attempts {
		var wants []inline.Want
		for range 1 + r.IntN(3) {
			wants = append(wants, of(rules[r.IntN(len(rules))], fmt.Sprint("key", r.IntN(2)), r.Int64N(4)))
		}
		v := askFor(t, s, wants...)
		taken, all := w.take(wants, v.Taken)
		if all != v.Admitted || !slices.Equal(taken, v.Taken) {
			t.Fatalf("attempt %d %s: got %v %+v, want %v %+v", n, describe(wants), v.Admitted, v.Taken, all, taken)
		}

		counts := false
		for i := range wants {
			counts = counts || v.Admitted && taken[i].Admitted && wants[i].Cost > 0
		}
		if counts != (v.Attempt != inline.ID{}) {
			t.Fatalf("attempt %d %s has the id %v: %+v", n, describe(wants), v.Attempt, v)
		}
		if counts {
			open = append(open, openAttempt{v.Attempt, wants, taken})
			admitted++
		}
		if !v.Admitted {
			refused++
		}
		if len(open) > 3 {
			w.settle(t, s, &open[0], r.Int64N(6)-1)
			open = open[1:]
			settles++
		}
		if r.IntN(8) == 0 {
			time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
		}
	}
	if least := attempts / 14; admitted < least || refused < least || settles < least {
		t.Errorf("%d admitted, %d refused, %d settled: the traffic shows too little", admitted, refused, settles)
	}
}
