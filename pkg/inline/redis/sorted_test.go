package redis

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"weir/internal/store/redis/redistest"
	"weir/pkg/inline"
	"weir/pkg/inline/inlinetest"
	"weir/pkg/inline/stored"
	"weir/pkg/window"
)

// A sets is a server whose sorted sets a test reads as people do.
type sets struct {
	*testing.T
	server *redistest.Server
	rules  inlinetest.Rules
}

func newSets(t *testing.T, rules ...*inline.Rule) *sets {
	return &sets{t, redistest.Start(t), rules}
}

func (s *sets) store(open func(testing.TB, Options) *Backend) *stored.Store {
	store := stored.New(stored.Config{Backend: open(s, Options{URL: "redis://" + s.server.Addr}), Rule: s.rules.Find, Slack: time.Second})
	s.Cleanup(store.Close)
	return store
}

// key is the one key whose name ends like this; empty if there is none.
func (s *sets) key(end string) string {
	s.Helper()
	all := s.server.Client.Keys(ctx, "*").Val()
	all = slices.DeleteFunc(all, func(key string) bool { return !strings.HasSuffix(key, end) })
	switch len(all) {
	case 0:
		return ""
	case 1:
		return all[0]
	}
	s.Fatalf("%q are too many", all)
	return ""
}

func (s *sets) members(of string) []goredis.Z {
	s.Helper()
	return s.server.Client.ZRangeWithScores(ctx, s.key("}counted:"+of), 0, -1).Val()
}

// has checks the members of a set, as an attempt and the rest of the member.
func (s *sets) has(of string, want ...string) {
	s.Helper()
	got := []string{}
	for _, z := range s.members(of) {
		got = append(got, z.Member.(string))
	}
	slices.Sort(want)
	if slices.Sort(got); !slices.Equal(got, want) {
		s.Errorf("the set of %s has %q, not %q", of, got, want)
	}
}

func (s *sets) take(in *stored.Store, wants ...inline.Want) (v inline.Verdict) {
	s.Helper()
	if err := in.Take(ctx, &v, wants); err != nil {
		s.Fatal(err)
	}
	return v
}

func (s *sets) settle(in *stored.Store, id inline.ID, cost int64) {
	s.Helper()
	if err := in.Settle(ctx, id, cost); err != nil {
		s.Fatal(err)
	}
}

func want(rule *inline.Rule, key string, cost int64) inline.Want {
	return inline.Want{Rule: rule, Key: []byte(key), Cost: cost}
}

func perHour(t testing.TB, name string, hits int64) *inline.Rule {
	return inlinetest.NewRule(t, name, window.Sliding, window.Limit{Hits: hits, Per: time.Hour})
}

func TestSortedSets(t *testing.T) {
	quota, few := perHour(t, "quota", 20), perHour(t, "few", 2)
	s := newSets(t, quota, few)
	store := s.store(openSorted)

	one := s.take(store, want(quota, "a", 1))
	two := s.take(store, want(quota, "a", 2), want(few, "b", 1), want(quota, "a", 3))
	s.has("quota:a", one.Attempt.String()+" 1", two.Attempt.String()+" 5")
	s.has("few:b", two.Attempt.String()+" 1")
	for _, z := range s.members("quota:a") {
		if at := int64(z.Score); at != one.Taken[0].At && at != two.Taken[0].At {
			t.Errorf("%v is not the time of an attempt", z)
		}
	}
	if set, cell := s.server.Client.PTTL(ctx, s.key("}counted:quota:a")).Val(), s.server.Client.PTTL(ctx, s.key("}kquota\x00a")).Val(); (set-cell).Abs() > 50*time.Millisecond || set < 59*time.Minute {
		t.Errorf("the set expires in %v, and the key in %v", set, cell)
	}

	s.take(store, want(few, "b", 1))
	fresh := s.store(openSorted) // it does not know yet that few refuses, and takes at both
	if v := s.take(fresh, want(quota, "a", 1), want(few, "b", 1)); v.Admitted {
		t.Errorf("%+v", v)
	}
	s.take(store, want(quota, "a", 0))
	if v := s.take(store, want(quota, "a", 15)); v.Admitted {
		t.Errorf("%+v", v)
	}
	s.has("quota:a", one.Attempt.String()+" 1", two.Attempt.String()+" 5")

	s.settle(fresh, one.Attempt, 4)
	s.settle(store, two.Attempt, inline.Kept)
	s.has("quota:a", one.Attempt.String()+" 4", two.Attempt.String()+" 5")
	s.settle(store, two.Attempt, 0)
	s.has("quota:a", one.Attempt.String()+" 4")
	s.settle(store, two.Attempt, 3) // of each part
	s.has("quota:a", one.Attempt.String()+" 4", two.Attempt.String()+" 6")
	s.settle(store, one.Attempt, 0)
	s.settle(store, two.Attempt, 0)
	if key := s.key("}counted:quota:a"); key != "" {
		t.Errorf("%q has nothing, and is there", key)
	}
}

func TestSortedSetOfAttemptsAtOnce(t *testing.T) {
	p, err := window.New(window.Config{Limits: []window.Limit{{Hits: 3, Per: time.Minute}, {Hits: 100, Per: time.Hour}}, AtOnce: []int{0}, Block: window.Block{For: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	exports := &inline.Rule{Name: "exports", Policy: p}
	s := newSets(t, exports)
	store := s.store(openSorted)
	one, two := s.take(store, want(exports, "a", 1)), s.take(store, want(exports, "a", 1))
	for range 2 {
		s.settle(store, one.Attempt, inline.Kept)
		s.has("exports:a", one.Attempt.String()+" 1 ended", two.Attempt.String()+" 1")
	}
	s.settle(store, one.Attempt, 7)
	s.has("exports:a", one.Attempt.String()+" 7 ended", two.Attempt.String()+" 1")
}

// TestSortedSetHasWhatCounts: after many calls of several processes the costs of a set are the count of the key.
func TestSortedSetHasWhatCounts(t *testing.T) {
	quota, few := perHour(t, "quota", 1_000_000), perHour(t, "few", 30)
	s := newSets(t, quota, few)
	var running sync.WaitGroup
	for range 3 {
		store := s.store(openSorted)
		for range 4 {
			running.Go(func() {
				var mine []inline.ID
				for range 150 {
					wants := []inline.Want{want(quota, strconv.Itoa(rand.IntN(2)), 1+rand.Int64N(3))}
					if rand.IntN(4) == 0 {
						wants = append(wants, want(few, "all", 1))
					}
					var v inline.Verdict
					if err := store.Take(ctx, &v, wants); err != nil {
						t.Error(err)
						return
					}
					if v.Admitted {
						mine = append(mine, v.Attempt)
					}
					if len(mine) > 0 && rand.IntN(3) == 0 {
						if err := store.Settle(ctx, mine[rand.IntN(len(mine))], rand.Int64N(5)-1); err != nil {
							t.Error(err)
							return
						}
					}
				}
			})
		}
	}
	running.Wait()
	time.Sleep(1100 * time.Millisecond) // what is still returned
	s.counts(quota, "0")
	s.counts(quota, "1")
	s.counts(few, "all")
}

// counts checks that the costs of a set are what its key has counted in the last hour.
func (s *sets) counts(rule *inline.Rule, key string) {
	s.Helper()
	known, err := s.store(open).Peek(ctx, rule, []byte(key), func(state *window.State, at int64) {
		sum, all := int64(0), s.members(rule.Name+":"+key)
		for _, z := range all {
			var cost int64
			if _, err := fmt.Sscanf(strings.Fields(z.Member.(string))[1], "%d", &cost); err != nil {
				s.Error(err)
			}
			sum += cost
		}
		if count := rule.Policy.Count(state, 0, at); sum != count {
			s.Errorf("%d members of %s %s have %d, and %d are counted", len(all), rule.Name, key, sum, count)
		}
	})
	if !known || err != nil {
		s.Error(known, err)
	}
}

func TestSortedSetForgets(t *testing.T) {
	brief := inlinetest.NewRule(t, "brief", window.Sliding, window.Limit{Hits: 100, Per: 300 * time.Millisecond})
	s := newSets(t, brief)
	store := s.store(openSorted)
	s.take(store, want(brief, "a", 1))
	time.Sleep(310 * time.Millisecond)
	last := s.take(store, want(brief, "a", 1))
	s.has("brief:a", last.Attempt.String()+" 1")

	wide := inlinetest.NewRule(t, "wide", window.Token, window.Limit{Hits: 1 << 30, Per: time.Hour})
	var running sync.WaitGroup
	for range 50 {
		running.Go(func() {
			for range 90 {
				s.take(store, want(wide, "a", 1))
			}
		})
	}
	running.Wait()
	if n := len(s.members("wide:a")); n != mostMembers {
		t.Errorf("the set has %d members", n)
	}
}

// TestLayoutsTogether: counts go on when the layout changes, there and back, also while others have another.
func TestLayoutsTogether(t *testing.T) {
	quota := perHour(t, "quota", 4)
	s := newSets(t, quota)
	packed, sorted := s.store(open), s.store(openSorted)
	before := s.take(packed, want(quota, "a", 1))
	s.has("quota:a")
	first := s.take(sorted, want(quota, "a", 1))
	s.has("quota:a", first.Attempt.String()+" 1")
	s.settle(sorted, before.Attempt, 2) // the set has never had it
	s.has("quota:a", first.Attempt.String()+" 1")
	if v := s.take(packed, want(quota, "a", 1)); !v.Admitted || v.Taken[0].Remaining != 0 {
		t.Errorf("%+v", v)
	}
	for _, store := range []*stored.Store{packed, sorted, s.store(open), s.store(openSorted)} {
		if v := s.take(store, want(quota, "a", 1)); v.Admitted {
			t.Errorf("%+v", v)
		}
	}
	s.has("quota:a", first.Attempt.String()+" 1")
}
