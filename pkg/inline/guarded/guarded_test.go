package guarded

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"weir/pkg/inline"
	"weir/pkg/window"
)

var ctx = context.Background()

// A moody store fails, hangs or answers.
type moody struct {
	*inline.Memory
	err   error
	hangs bool
	asked int
}

func (m *moody) Take(ctx context.Context, v *inline.Verdict, wants []inline.Want) error {
	m.asked++
	if m.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	if m.err != nil {
		return m.err
	}
	return m.Memory.Take(ctx, v, wants)
}

func newRule(t *testing.T, name string, onError inline.OnError) *inline.Rule {
	t.Helper()
	policy := func(hits int64) *window.Policy {
		p, err := window.New(window.Config{Limits: []window.Limit{{Hits: hits, Per: time.Hour}}, Block: window.Block{For: time.Minute}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	rule := &inline.Rule{Name: name, Policy: policy(10), OnError: onError}
	if onError == inline.Local {
		rule.Local = &inline.Rule{Name: name, Policy: policy(2)}
	}
	return rule
}

func (g *Guard) try(wants ...inline.Want) (v inline.Verdict) {
	_ = g.Take(ctx, &v, wants) // never fails
	return v
}

func of(rule *inline.Rule) inline.Want { return inline.Want{Rule: rule, Key: []byte("a"), Cost: 1} }

func TestTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &moody{Memory: inline.New(inline.Config{})}
		g := New(Config{Store: s, Memory: inline.New(inline.Config{}), Budget: 20 * time.Millisecond})
		rule := newRule(t, "quota", inline.Allow)
		if v := g.try(of(rule)); v.OnError != inline.Answered || v.Taken[0].Remaining != 9 {
			t.Fatalf("%+v", v)
		}

		s.hangs = true
		for range 3 * opensAfter {
			begin := time.Now()
			if v := g.try(of(rule)); v.OnError != inline.Allow || !v.Admitted || v.Attempt != (inline.ID{}) {
				t.Errorf("%+v", v)
			}
			if took := time.Since(begin); took > 20*time.Millisecond {
				t.Errorf("it took %v", took)
			}
		}
		if s.asked != 1+opensAfter || !g.Away() {
			t.Errorf("%d were asked", s.asked)
		}

		// One tries in a while, and its failure opens it again.
		time.Sleep(tryEvery)
		for range 5 {
			g.try(of(rule))
		}
		if s.asked != 2+opensAfter || !g.Away() {
			t.Errorf("%d were asked", s.asked)
		}

		// A store that is busy with one key works.
		s.hangs, s.err = false, inline.ErrBusy
		time.Sleep(tryEvery)
		for range 2 * opensAfter {
			if v := g.try(of(rule)); v.OnError != inline.Allow {
				t.Errorf("%+v", v)
			}
		}
		if s.err = nil; g.Away() || g.try(of(rule)).Taken[0].Remaining != 8 {
			t.Error("it stays open")
		}
	})
}

// One moment in which the store is slow fails all that ask then. The next are asked again, so few pass without it.
func TestFailuresAtTheSameTimeAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{Memory: inline.New(inline.Config{})}
		g := New(Config{Store: s, Memory: inline.New(inline.Config{}), Budget: 20 * time.Millisecond})
		rule := newRule(t, "quota", inline.Allow)
		for round := range opensAfter {
			if g.Away() {
				t.Fatalf("it is open after %d failures", round)
			}
			for range 100 {
				go g.try(of(rule))
			}
			time.Sleep(25 * time.Millisecond)
		}
		if !g.Away() {
			t.Error("it is not open")
		}
	})
}

// A slow store answers nothing in time.
type slow struct{ *inline.Memory }

func (s *slow) Take(ctx context.Context, _ *inline.Verdict, _ []inline.Want) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestAnswersWithoutTheStore(t *testing.T) {
	s := &moody{Memory: inline.New(inline.Config{}), err: errors.New("away")}
	g := New(Config{Store: s, Memory: inline.New(inline.Config{})})
	allow, refuse, local := newRule(t, "allow", inline.Allow), newRule(t, "refuse", inline.Refuse), newRule(t, "local", inline.Local)
	shadow := *refuse
	shadow.Shadow = true
	for name, one := range map[string]struct {
		wants    []inline.Want
		admitted bool
		onError  inline.OnError
		decides  int
	}{
		"none":                    {nil, true, inline.Allow, 0},
		"allow":                   {[]inline.Want{of(allow)}, true, inline.Allow, 0},
		"refuse":                  {[]inline.Want{of(refuse)}, false, inline.Refuse, 0},
		"one refuses":             {[]inline.Want{of(local), of(allow), of(refuse)}, false, inline.Refuse, 2},
		"refuse in shadow":        {[]inline.Want{of(&shadow)}, true, inline.Allow, 0},
		"local in second place":   {[]inline.Want{of(allow), of(local)}, true, inline.Local, 1},
		"shadow and local, again": {[]inline.Want{of(&shadow), of(local)}, true, inline.Local, 1},
	} {
		if name == "shadow and local, again" {
			one.wants[1].Key = []byte("b")
		}
		v := g.try(one.wants...)
		if v.Admitted != one.admitted || v.OnError != one.onError || len(one.wants) > 0 && v.Decides != one.decides || len(v.Taken) != len(one.wants) {
			t.Errorf("%s: %+v", name, v)
		}
	}

	// The share of this process is 2 of 10, and one of it is taken above.
	v := g.try(of(local))
	if !v.Admitted || v.Attempt == (inline.ID{}) || v.Taken[0].Remaining != 0 {
		t.Errorf("%+v", v)
	}
	if v := g.try(of(allow), of(local)); v.Admitted || v.OnError != inline.Local || v.Decides != 1 {
		t.Errorf("beyond the share: %+v", v)
	}
	if err := g.Settle(ctx, v.Attempt, 0); err != nil {
		t.Errorf("an attempt that was counted here: %v", err)
	}
	if v := g.try(of(local)); !v.Admitted {
		t.Errorf("%+v", v)
	}
}

// A client that makes the store late stays refused where it was refused before. Others are answered as their rules say.
func TestARefusedKeyStaysRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &moody{Memory: inline.New(inline.Config{})}
		g := New(Config{Store: s, Memory: inline.New(inline.Config{}), Budget: 20 * time.Millisecond})
		rule, other := newRule(t, "quota", inline.Allow), newRule(t, "other", inline.Allow)
		first := g.try(of(rule)).Attempt
		for range 10 {
			g.try(of(rule))
		}
		free := of(rule)
		free.Cost = 0

		s.hangs = true
		for n := range 3 * opensAfter {
			v := g.try(of(other), of(rule))
			if v.Admitted || v.OnError != inline.Answered || v.Decides != 1 || v.Taken[1].Again-v.Taken[1].At <= 0 || !v.Taken[0].Admitted || v.Taken[0].At != v.Taken[1].At {
				t.Errorf("attempt %d: %+v", n+1, v)
			}
		}
		if v := g.try(of(other)); !v.Admitted {
			t.Errorf("another rule: %+v", v)
		}
		if v := g.try(free); !v.Admitted {
			t.Errorf("what costs less: %+v", v)
		}
		time.Sleep(rememberFor)
		if v := g.try(of(rule)); !v.Admitted || v.OnError != inline.Allow {
			t.Errorf("later: %+v", v)
		}

		s.hangs = false
		time.Sleep(tryEvery)
		if v := g.try(of(rule)); v.Admitted {
			t.Errorf("the store again: %+v", v)
		}
		if err := g.Settle(ctx, first, 0); err != nil {
			t.Error(err)
		}
		if s.hangs = true; !g.try(of(rule)).Admitted {
			t.Error("an attempt was settled, and there is room")
		}
	})
}

func TestRefusalsAreBounded(t *testing.T) {
	g := New(Config{Store: inline.New(inline.Config{}), Memory: inline.New(inline.Config{})})
	want := of(newRule(t, "quota", inline.Allow))
	want.Cost = 11
	for n := range mostRefusals + 100 {
		want.Key = []byte{byte(n >> 8), byte(n)}
		if g.try(want).Admitted {
			t.Fatal(n)
		}
	}
	if n := len(g.refused.of); n != mostRefusals {
		t.Errorf("%d are remembered", n)
	}
}
