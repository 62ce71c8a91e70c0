package inlinetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"weir/pkg/inline"
	"weir/pkg/window"
)

const callers = 64

// seen are the instants of attempts of one key, each of cost 1.
type seen struct {
	mu                sync.Mutex
	admitted, refused []int64
}

func (s *seen) add(v *inline.Verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := v.Taken[0].At; v.Admitted {
		s.admitted = append(s.admitted, at)
	} else {
		s.refused = append(s.refused, at)
	}
}

// check: no window has more than its limit, and no attempt is refused while it has fewer.
func (s *seen) check(t testing.TB, hits int, per int64) {
	t.Helper()
	slices.Sort(s.admitted)
	for _, at := range s.admitted {
		if n := within(s.admitted, at-per, at); n > hits {
			t.Errorf("%d are admitted within %d ms before %d", n, per, at)
		}
	}
	for _, at := range s.refused {
		if n := within(s.admitted, at-per, at); n < hits {
			t.Errorf("one is refused at %d, while only %d are admitted", at, n)
		}
	}
}

// within is how many instants lie in (after, until].
func within(sorted []int64, after, until int64) int {
	i, _ := slices.BinarySearch(sorted, after+1)
	j, _ := slices.BinarySearch(sorted, until+1)
	return j - i
}

func manyCallers(t *testing.T, p *Place) {
	const hits, per = 50, 200
	rule := NewRule(t, "quota", window.Sliding, window.Limit{Hits: hits, Per: per * time.Millisecond})
	lasts, processes := 1200*time.Millisecond, []int{1, 4}
	if p.Brief {
		lasts, processes = 900*time.Millisecond, processes[1:]
	}
	for _, n := range processes {
		all, key := p.processes(n, Options{}), fmt.Sprint("of ", n)
		var s seen
		var running sync.WaitGroup
		begin := time.Now()
		for i := range callers {
			running.Go(func() {
				for time.Since(begin) < lasts {
					v := askFor(t, all[i%len(all)], of(rule, key, 1))
					s.add(&v)
				}
			})
		}
		running.Wait()
		s.check(t, hits, per)
		if len(s.admitted) < 3*hits || len(s.refused) < hits {
			t.Errorf("%d admitted, %d refused: the traffic shows too little", len(s.admitted), len(s.refused))
		}
	}
}

// manyCallersOfSeveral: what remains in the end is what no admitted attempt has taken.
func manyCallersOfSeveral(t *testing.T, p *Place) {
	const limit = 150
	rules := Rules{perHour(t, "one", limit), perHour(t, "two", 2*limit), perHour(t, "three", 3*limit)}
	all, keys := p.processes(3, Options{Rule: rules.Find}), []string{"a", "b"}
	var mu sync.Mutex
	spent := map[string]int64{}
	var running sync.WaitGroup
	for i := range callers {
		running.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			for range 30 {
				var wants []inline.Want
				for range 1 + r.IntN(3) {
					wants = append(wants, of(rules[r.IntN(3)], keys[r.IntN(2)], 1+r.Int64N(2)))
				}
				v := askFor(t, all[i%len(all)], wants...)
				if !v.Admitted {
					continue
				}
				if r.IntN(8) == 0 {
					if err := all[r.IntN(len(all))].Settle(ctx, v.Attempt, 0); err != nil {
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

	refused := 0
	for i, rule := range rules {
		for _, key := range keys {
			most := limit * int64(1+i)
			v, n := askFor(t, all[0], of(rule, key, 0)), spent[rule.Name+key]
			if n > most || v.Taken[0].Remaining != most-n {
				t.Errorf("%s %s: %d of %d are spent, and %d remain", rule.Name, key, n, most, v.Taken[0].Remaining)
			}
			if n >= most-1 {
				refused++
			}
		}
	}
	if refused == 0 {
		t.Error("no limit is reached: the traffic shows too little")
	}
}
