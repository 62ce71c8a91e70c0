package stored_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/pkg/inline"
	"weir/pkg/inline/inlinetest"
	"weir/pkg/inline/stored"
	"weir/pkg/window"
)

var ctx = context.Background()

func perHour(t *testing.T, hits int64) *inline.Rule {
	t.Helper()
	return inlinetest.NewRule(t, "quota", window.Sliding, window.Limit{Hits: hits, Per: time.Hour})
}

func take(t *testing.T, s inline.Store, within time.Duration, wants ...inline.Want) (v inline.Verdict, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return v, s.Take(ctx, &v, wants)
}

func of(rule *inline.Rule, key string, cost int64) inline.Want {
	return inline.Want{Rule: rule, Key: []byte(key), Cost: cost}
}

// remains asks how many hits remain.
func remains(t *testing.T, s inline.Store, rule *inline.Rule, key string) int64 {
	t.Helper()
	v, err := take(t, s, time.Minute, of(rule, key, 0))
	if err != nil {
		t.Fatal(err)
	}
	return v.Taken[0].Remaining
}

// A process that stands still between its decision and the commit counts nothing for callers that have gone.
func TestAPausedCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, rule := inlinetest.NewMemory(nil), perHour(t, 10)
		s := stored.New(stored.Config{Backend: b, Slack: 20 * time.Millisecond})
		if _, err := take(t, s, time.Minute, of(rule, "a", 1)); err != nil {
			t.Fatal(err)
		}
		var paused atomic.Int32
		paused.Store(1)
		b.Before = func(*stored.Commit) error {
			if paused.Add(-1) == 0 {
				time.Sleep(time.Second)
			}
			return nil
		}
		if v, err := take(t, s, 20*time.Millisecond, of(rule, "a", 1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%+v, %v", v, err)
		}
		s.Close()
		if n := remains(t, s, rule, "a"); n != 9 {
			t.Errorf("%d remain of 9", n)
		}

		// One that still waits is decided again, for the time that it is then.
		paused.Store(1)
		begin := time.Now()
		v, err := take(t, s, time.Minute, of(rule, "a", 1))
		if err != nil || !v.Admitted || v.Taken[0].At < begin.Add(time.Second).UnixMilli() || v.Taken[0].Remaining != 8 {
			t.Errorf("%+v, %v", v, err)
		}
	})
}

// late is a Backend whose answers come late.
type late struct {
	stored.Backend
	by atomic.Int64
}

func (l *late) Commit(ctx context.Context, c *stored.Commit) (stored.Result, error) {
	r, err := l.Backend.Commit(ctx, c)
	time.Sleep(time.Duration(l.by.Swap(0)))
	return r, err
}

// An attempt whose caller had gone when it was counted is returned, at all of its keys.
func TestAnAnswerThatComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, rule := &late{Backend: inlinetest.NewMemory(nil)}, perHour(t, 10)
		s := stored.New(stored.Config{Backend: b})
		if n := remains(t, s, rule, "a"); n != 10 {
			t.Fatal(n)
		}
		b.by.Store(int64(50 * time.Millisecond))
		if v, err := take(t, s, 20*time.Millisecond, of(rule, "a", 3), of(rule, "b", 2)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%+v, %v", v, err)
		}
		s.Close()
		for _, key := range []string{"a", "b"} {
			if n := remains(t, s, rule, key); n != 10 {
				t.Errorf("%s: %d remain of 10", key, n)
			}
		}
	})
}

// Nothing stays in the database when it counts no more, but for the secret.
func TestEveryCellExpires(t *testing.T) {
	now := time.Now()
	b := inlinetest.NewMemory(func() time.Time { return now })
	rule, bucket := perHour(t, 3), inlinetest.NewRule(t, "bucket", window.Token, window.Limit{Hits: 10, Per: time.Minute})
	s := stored.New(stored.Config{Backend: b, Rule: inlinetest.Rules{rule, bucket}.Find})
	defer s.Close()
	for n := range 20 {
		key := fmt.Sprint(n % 3)
		if _, err := take(t, s, time.Minute, of(rule, key, 1), of(bucket, key, 1)); err != nil {
			t.Fatal(err)
		}
		var v inline.Verdict
		if err := s.TakeOnce(ctx, &v, fmt.Sprint(n/2), []inline.Want{of(rule, "once"+key, 1), of(bucket, key, 1)}); err != nil {
			t.Fatal(err)
		}
		if v.Admitted && n%3 == 0 {
			if err := s.Settle(ctx, v.Attempt, 2); err != nil {
				t.Fatal(err)
			}
		}
	}
	if b.Len() < 20 {
		t.Errorf("only %d cells are there", b.Len())
	}
	if now = now.Add(11 * time.Minute); b.Len() > 7 {
		t.Errorf("%d cells are there after the attempts have expired", b.Len())
	}
	if now = now.Add(time.Hour); b.Len() != 1 {
		t.Errorf("%d cells stay", b.Len())
	}
}

// A client that goes on after it was refused leaves nothing in the database.
func TestRefusedRequestsLeaveNothing(t *testing.T) {
	now := time.Now()
	b, rule, other := inlinetest.NewMemory(func() time.Time { return now }), perHour(t, 3), inlinetest.NewRule(t, "other", window.Sliding, window.Limit{Hits: 1000, Per: time.Hour})
	s := stored.New(stored.Config{Backend: b, Rule: inlinetest.Rules{rule, other}.Find})
	defer s.Close()
	var first inline.Verdict
	once := func(v *inline.Verdict, request string, wants ...inline.Want) {
		t.Helper()
		if err := s.TakeOnce(ctx, v, request, wants); err != nil {
			t.Fatal(err)
		}
	}
	once(&first, "first", of(rule, "a", 3))
	var v inline.Verdict
	once(&v, "refused", of(rule, "a", 1))
	before := b.Len()
	for n := range 50 {
		if once(&v, fmt.Sprint(n), of(rule, "a", 1), of(other, "a", 1)); v.Admitted {
			t.Fatalf("%+v", v)
		}
	}
	if n := b.Len() - before; n > 2 {
		t.Errorf("%d cells more", n)
	}

	// A request that is asked about again counts at other rules, and can be settled there too.
	if once(&v, "first", of(rule, "a", 3), of(other, "a", 5)); !v.Admitted || v.Attempt != first.Attempt {
		t.Errorf("%+v", v)
	}
	if err := s.Settle(ctx, first.Attempt, 0); err != nil {
		t.Error(err)
	}
	if n, m := remains(t, s, rule, "a"), remains(t, s, other, "a"); n != 3 || m != 1000 {
		t.Errorf("%d and %d remain", n, m)
	}
}

// After the database has lost everything, Stores that were opened before and after agree again about the IDs of requests.
func TestTheSecretIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, rule := inlinetest.NewMemory(nil), perHour(t, 100)
		once := func(s inline.Store, request string) inline.ID {
			t.Helper()
			var v inline.Verdict
			if err := s.TakeOnce(ctx, &v, request, []inline.Want{of(rule, "a", 1)}); err != nil {
				t.Fatal(err)
			}
			return v.Attempt
		}
		first := stored.New(stored.Config{Backend: b})
		defer first.Close()
		once(first, "before")
		b.Lose()
		second := stored.New(stored.Config{Backend: b})
		defer second.Close()
		once(second, "after")
		if once(first, "between") == once(second, "between") {
			t.Error("they have not lost anything")
		}

		time.Sleep(time.Minute)
		once(first, "a minute later")
		once(second, "a minute later")
		if x, y := once(first, "later"), once(second, "later"); x != y {
			t.Errorf("a request counts as %v and as %v", x, y)
		}
		b.Lose()
		time.Sleep(time.Minute)
		once(first, "two minutes later")
		x := once(first, "again")
		third := stored.New(stored.Config{Backend: b})
		defer third.Close()
		if y := once(third, "again"); x != y || x != once(second, "again") {
			t.Errorf("after another loss it counts as %v and as %v", x, y)
		}
	})
}

// A Store that remembers fewer keys than there are, and attempts that are more than one commit has, count the same.
func TestFewKeysAreRememberedAndManyWait(t *testing.T) {
	const callers, keys, each = 600, 5, 4
	rule := perHour(t, callers*each/keys-7)
	s := stored.New(stored.Config{Backend: inlinetest.NewMemory(nil), Keys: 2})
	defer s.Close()
	var admitted [keys]atomic.Int64
	var running sync.WaitGroup
	for i := range callers {
		running.Go(func() {
			for n := range each {
				key := (i + n) % keys
				v, err := take(t, s, time.Minute, of(rule, fmt.Sprint(key), 1))
				if err != nil {
					t.Error(err)
				}
				if v.Admitted {
					admitted[key].Add(1)
				}
			}
		})
	}
	running.Wait()
	for key := range admitted {
		if n := admitted[key].Load(); n != callers*each/keys-7 {
			t.Errorf("%d are admitted of %d", n, callers*each/keys-7)
		}
	}
	if n := s.Stats().Keys; n != 2 {
		t.Errorf("%d keys are remembered", n)
	}
}

// Bytes that another program has written fail the attempt, and do not stay in the way of others.
func TestForeignBytes(t *testing.T) {
	b, rule := inlinetest.NewMemory(nil), perHour(t, 10)
	s := stored.New(stored.Config{Backend: b})
	defer s.Close()
	name := "kquota\x00a"
	foreign := stored.Change{Name: name, Next: 7, State: []byte("foreign"), Expires: window.MaxTime}
	if r, err := b.Commit(ctx, &stored.Commit{Group: stored.GroupOf(name), At: 1, Slack: window.MaxTime * 1000, Changes: []stored.Change{foreign}}); err != nil || !r.Done {
		t.Fatal(err)
	}
	if v, err := take(t, s, time.Minute, of(rule, "a", 1)); !errors.Is(err, window.ErrCorrupt) {
		t.Errorf("%+v, %v", v, err)
	}
	if n := remains(t, s, rule, "b"); n != 10 {
		t.Error(n)
	}
}
