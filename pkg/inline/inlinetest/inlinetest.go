// Package inlinetest has the tests that every store of inline limits has to pass: Run those of inline.Store, and
// RunBackend those of a stored.Backend, with Run over it. Memory is a Backend in this process, for tests.
package inlinetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"weir/pkg/inline"
	"weir/pkg/window"
)

// A Place is where the Stores of one test count. Each call of Open is as another process there.
type Place struct {
	Open func(o Options) inline.Store
	// Alone is of a place that only one process can use.
	Alone bool
	// Attempts is how many are compared with windows that are asked directly; 4000 unless given.
	Attempts int
	// Brief is of a place whose kind has been tested at length in another.
	Brief bool
}

// Options of a Store.
type Options struct {
	Settle time.Duration
	Rule   func(name string) *inline.Rule
}

// Run runs all tests, each in a new and empty Place, whose clock is that of this machine.
func Run(t *testing.T, open func(t *testing.T) *Place) {
	for _, one := range []struct {
		name string
		run  func(*testing.T, *Place)
	}{
		{"same verdicts as windows that are asked directly", sameAsWindows},
		{"many callers of one key", manyCallers},
		{"many callers of several keys at once", manyCallersOfSeveral},
		{"settled", settled},
		{"at once", atOnce},
		{"at once until the lease ends", leaseEnds},
		{"at once for longer than can be settled", leaseOverSettle},
		{"many callers at once", atOnceCallers},
		{"a request counts once", once},
		{"a request counts for keys that were made alike", onceOfMadeKeys},
		{"many ask about one request", onceForMany},
		{"limits lowered and raised", otherLimits},
		{"peek", peek},
	} {
		t.Run(one.name, func(t *testing.T) { one.run(t, open(t)) })
	}
}

// processes are several Stores of one Place.
func (p *Place) processes(n int, o Options) (all []inline.Store) {
	if p.Alone {
		n = 1
	}
	for range n {
		all = append(all, p.Open(o))
	}
	return all
}

var ctx = context.Background()

// Rules can be found by their names.
type Rules []*inline.Rule

// Find is for Options.Rule.
func (r Rules) Find(name string) *inline.Rule {
	for _, one := range r {
		if one.Name == name {
			return one
		}
	}
	return nil
}

// NewRule makes a rule.
func NewRule(t testing.TB, name string, algorithm window.Algorithm, limits ...window.Limit) *inline.Rule {
	t.Helper()
	p, err := window.New(window.Config{Algorithm: algorithm, Limits: limits, Block: window.Block{For: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	return &inline.Rule{Name: name, Policy: p}
}

func perHour(t testing.TB, name string, hits int64) *inline.Rule {
	t.Helper()
	return NewRule(t, name, window.Sliding, window.Limit{Hits: hits, Per: time.Hour})
}

func of(rule *inline.Rule, key string, cost int64) inline.Want {
	return inline.Want{Rule: rule, Key: []byte(key), Cost: cost}
}

func askFor(t testing.TB, s inline.Store, wants ...inline.Want) (v inline.Verdict) {
	t.Helper()
	if err := s.Take(ctx, &v, wants); err != nil {
		t.Error(err)
		v.Begin(wants)
	}
	return v
}

func otherLimits(t *testing.T, p *Place) {
	all := p.processes(2, Options{})
	for range 4 {
		askFor(t, all[0], of(perHour(t, "quota", 10), "a", 1))
	}
	for range 2 {
		for i, s := range all {
			if v := askFor(t, s, of(perHour(t, "quota", 3), "a", 1)); v.Admitted {
				t.Errorf("%d: 4 of 3: %+v", i, v)
			}
		}
	}
	if v := askFor(t, all[len(all)-1], of(perHour(t, "quota", 6), "a", 1)); !v.Admitted || v.Taken[0].Remaining != 1 {
		t.Errorf("5 of 6: %+v", v)
	}
}

func peek(t *testing.T, p *Place) {
	rule, all := perHour(t, "quota", 3), p.processes(2, Options{})
	askFor(t, all[0], of(rule, "a", 2))
	known, err := all[len(all)-1].Peek(ctx, rule, []byte("a"), func(s *window.State, at int64) {
		if got := rule.Policy.Count(s, 0, at); got != 2 {
			t.Errorf("2 are counted, and it shows %d", got)
		}
	})
	if !known || err != nil {
		t.Errorf("%v, %v", known, err)
	}
	if known, err := all[0].Peek(ctx, rule, []byte("none"), func(*window.State, int64) {}); known || err != nil {
		t.Errorf("a key that was never asked for: %v, %v", known, err)
	}
}

func describe(wants []inline.Want) (text string) {
	for _, w := range wants {
		text += fmt.Sprintf("%s/%s:%d ", w.Rule.Name, w.Key, w.Cost)
	}
	return text
}
