package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"weir/internal/store/redis/redistest"
	"weir/pkg/inline"
	"weir/pkg/inline/inlinetest"
	"weir/pkg/inline/stored"
	"weir/pkg/window"
)

// withQueue makes a rule whose requests go into a queue.
func withQueue(t testing.TB, name, stream string, atMost int64) *inline.Rule {
	t.Helper()
	rule := inlinetest.NewRule(t, name, window.Sliding, window.Limit{Hits: 1000, Per: time.Hour})
	rule.Queue = &inline.Queue{Stream: stream, AtMost: atMost, Limit: 1}
	return rule
}

func queueStore(t testing.TB, o Options, rules inlinetest.Rules) *stored.Store {
	t.Helper()
	s := stored.New(stored.Config{Backend: open(t, o), Rule: rules.Find, Slack: time.Second})
	t.Cleanup(s.Close)
	return s
}

func takes(t testing.TB, s *stored.Store, wants ...inline.Want) (v inline.Verdict) {
	t.Helper()
	if err := s.Take(ctx, &v, wants); err != nil {
		t.Fatal(err)
	}
	return v
}

func length(t testing.TB, client goredis.UniversalClient, stream string) int64 {
	t.Helper()
	n, err := client.XLen(ctx, stream).Result()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A request that all limits admit is one entry. A queue that is full refuses it, and then nothing has counted.
func TestAQueue(t *testing.T) {
	server := redistest.Start(t)
	rules := inlinetest.Rules{withQueue(t, "jobs", "jobs", 2), withQueue(t, "mails", "mails", 1),
		inlinetest.NewRule(t, "quota", window.Token, window.Limit{Hits: 5, Per: time.Hour})}
	s := queueStore(t, Options{URL: "redis://" + server.Addr}, rules)
	job := inline.Want{Rule: rules[0], Key: []byte("a"), Cost: 3, Fields: []string{"field.user", "alice"}}
	mail := inline.Want{Rule: rules[1], Key: []byte("a"), Cost: 1}
	quota := inline.Want{Rule: rules[2], Key: []byte("a"), Cost: 1}
	asked := job
	asked.Cost = 0

	first := takes(t, s, job)
	if got := first.Taken[0]; !first.Admitted || got.Limit != 1 || got.Remaining != 1 || first.Attempt == (inline.ID{}) {
		t.Errorf("%+v", first)
	}
	entries, err := server.Client.XRange(ctx, "jobs", "-", "+").Result()
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	had := entries[0].Values
	at, err := time.Parse(time.RFC3339, fmt.Sprint(had["time"]))
	if had["attempt"] != first.Attempt.String() || had["rule"] != "jobs" || had["key"] != "a" || had["cost"] != "3" || had["field.user"] != "alice" || err != nil || at.UnixMilli() != first.Taken[0].At {
		t.Errorf("%+v", had)
	}

	// Of several queues one refuses, and of several rules.
	if v := takes(t, s, mail, job, quota); !v.Admitted || v.Taken[0].Remaining != 0 || v.Taken[2].Remaining != 4 {
		t.Errorf("%+v", v)
	}
	if err := server.Client.XTrimMaxLen(ctx, "jobs", 1).Err(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		v := takes(t, s, job, quota, mail)
		if v.Admitted || v.Decides != 2 || v.Taken[2].Limit != 1 || v.Taken[2].Again != inline.NotKnown || v.Taken[1].Remaining != 4 || v.Attempt != (inline.ID{}) {
			t.Errorf("the second queue is full: %+v", v)
		}
	}
	spent := quota
	spent.Cost = 5
	if v := takes(t, s, spent, job); v.Admitted || v.Decides != 0 {
		t.Errorf("a limit refuses: %+v", v)
	}
	if n := length(t, server.Client, "jobs"); n != 1 {
		t.Errorf("%d jobs, of which 1 was admitted", n)
	}
	if v := takes(t, s, asked); !v.Admitted || v.Taken[0].Remaining != 1 || v.Taken[0].Limit != 1 {
		t.Errorf("asked: %+v", v)
	}

	// A request that is asked about again has one entry.
	for range 3 {
		var v inline.Verdict
		if err := s.TakeOnce(ctx, &v, "one", []inline.Want{job}); err != nil || !v.Admitted {
			t.Errorf("%+v, %v", v, err)
		}
	}
	if n := length(t, server.Client, "jobs"); n != 2 {
		t.Errorf("%d jobs", n)
	}

	// In shadow nothing is refused, so nothing is left out.
	shadow := *rules[0]
	shadow.Shadow = true
	if v := takes(t, s, inline.Want{Rule: &shadow, Key: []byte("a"), Cost: 1}); !v.Admitted || v.Taken[0].Admitted {
		t.Errorf("in shadow: %+v", v)
	}
	if n := length(t, server.Client, "jobs"); n != 3 {
		t.Errorf("%d jobs", n)
	}
}

// In shadow mode clients fill a stream only up to a bound. Then requests pass without an entry.
func TestAQueueInShadowIsBounded(t *testing.T) {
	server := redistest.Start(t)
	rules := inlinetest.Rules{withQueue(t, "jobs", "jobs", 2)}
	rules[0].Shadow = true
	s := queueStore(t, Options{URL: "redis://" + server.Addr}, rules)
	const most = 2 + inline.MostShadowed
	fill := `for i = 2, tonumber(ARGV[1]) do redis.call('XADD', KEYS[1], '*', 'a', 'b') end`
	if err := server.Client.Eval(ctx, fill, []string{"jobs"}, most).Err(); err != nil && !errors.Is(err, goredis.Nil) {
		t.Fatal(err)
	}
	for range 3 {
		if v := takes(t, s, inline.Want{Rule: rules[0], Key: []byte("a"), Cost: 1}); !v.Admitted || v.Taken[0].Admitted {
			t.Errorf("%+v", v)
		}
		if n := length(t, server.Client, "jobs"); n != most {
			t.Errorf("%d entries, want %d", n, most)
		}
	}
}

// An entry that comes too late, for its caller has given up, is not added.
func TestALateEntryIsNotAdded(t *testing.T) {
	server := redistest.Start(t)
	b := open(t, Options{URL: "redis://" + server.Addr})
	got, err := b.Push(ctx, &stored.Push{Stream: "jobs", AtMost: 5, Until: time.Now().Add(-time.Minute).UnixMicro(), Fields: []string{"a", "b"}})
	if err != nil || !got.Late || got.Entry != "" || length(t, server.Client, "jobs") != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// consume removes entries until the context ends, and returns their attempts.
func consume(ctx context.Context, client goredis.UniversalClient, stream string, most int64, over *atomic.Int64) (attempts []string) {
	for ctx.Err() == nil {
		if n, err := client.XLen(ctx, stream).Result(); err == nil && n > most {
			over.Store(n)
		}
		entries, err := client.XRangeN(ctx, stream, "-", "+", 3).Result()
		if err != nil || len(entries) == 0 {
			time.Sleep(time.Millisecond)
			continue
		}
		for _, one := range entries {
			if n, err := client.XDel(ctx, stream, one.ID).Result(); err == nil && n == 1 {
				attempts = append(attempts, fmt.Sprint(one.Values["attempt"]))
			}
		}
	}
	return attempts
}

// Producers of several processes never have more in the queue than it may have, also when Redis is killed between, and
// each attempt that was admitted is one entry.
func TestProducersAndConsumers(t *testing.T) {
	const most = 10
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	rule := withQueue(t, "jobs", "jobs", most)
	rule.Policy = inlinetest.NewRule(t, "jobs", window.Token, window.Limit{Hits: 1 << 30, Per: time.Second}).Policy
	var over, seen atomic.Int64
	var mu sync.Mutex
	var admitted, consumed []string
	refused := 0
	ctx, end := context.WithCancel(ctx)
	defer end()
	var producing, consuming sync.WaitGroup
	for range 2 {
		client := goredis.NewClient(&goredis.Options{Addr: server.Addr})
		consuming.Go(func() {
			defer client.Close()
			got := consume(ctx, client, "jobs", most, &over)
			mu.Lock()
			defer mu.Unlock()
			consumed = append(consumed, got...)
		})
	}
	begin := time.Now()
	var stores []*stored.Store
	for range 4 {
		stores = append(stores, queueStore(t, Options{URL: "redis://" + server.Addr}, inlinetest.Rules{rule}))
	}
	for i := range 64 {
		producing.Go(func() {
			for since := time.Since(begin); since < 3*time.Second || since < time.Minute && seen.Load() < 200; since = time.Since(begin) {
				var v inline.Verdict
				within, cancel := context.WithTimeout(ctx, time.Second)
				err := stores[i%4].Take(within, &v, []inline.Want{{Rule: rule, Key: fmt.Append(nil, i), Cost: 1}})
				cancel()
				mu.Lock()
				switch {
				case err != nil: // it may have been added
				case v.Admitted:
					seen.Add(1)
					admitted = append(admitted, v.Attempt.String())
				default:
					refused++
				}
				mu.Unlock()
			}
		})
	}
	time.Sleep(time.Second)
	server.Kill()
	server.Restart()
	producing.Wait()
	for n := int64(1); n > 0; time.Sleep(time.Millisecond) {
		n = length(t, server.Client, "jobs")
	}
	end()
	consuming.Wait()

	if n := over.Load(); n > 0 {
		t.Errorf("%d entries, at most %d", n, most)
	}
	slices.Sort(consumed)
	if len(slices.Compact(slices.Clone(consumed))) != len(consumed) {
		t.Error("an attempt has two entries")
	}
	missing := 0
	for _, id := range admitted {
		if _, found := slices.BinarySearch(consumed, id); !found {
			missing++
		}
	}
	// A consumer that Redis is killed under may have removed an entry and not know it.
	if missing > 2*3 {
		t.Errorf("%d of %d attempts have no entry", missing, len(admitted))
	}
	if len(admitted) < 100 || refused < 100 {
		t.Errorf("%d admitted, %d refused: the traffic shows too little", len(admitted), refused)
	}
}

// In a Cluster the stream is a key with a slot of its own.
func TestAQueueInACluster(t *testing.T) {
	var addresses []string
	for _, node := range redistest.Cluster(t, 3) {
		addresses = append(addresses, node.Addr)
	}
	var rules inlinetest.Rules
	for i := range 8 {
		rules = append(rules, withQueue(t, fmt.Sprint("rule", i), fmt.Sprint("stream", i), 1))
	}
	s := queueStore(t, Options{URL: "redis://" + strings.Join(addresses, ",")}, rules)
	for _, rule := range rules {
		want := inline.Want{Rule: rule, Key: []byte("a"), Cost: 1}
		if v := takes(t, s, want); !v.Admitted {
			t.Errorf("%s: %+v", rule.Name, v)
		}
		if v := takes(t, s, want); v.Admitted {
			t.Errorf("%s: %+v", rule.Name, v)
		}
	}
}
