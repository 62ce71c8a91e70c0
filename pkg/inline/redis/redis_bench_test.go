package redis

import (
	"fmt"
	"math/rand/v2"
	"slices"
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

// bare does what one attempt does at least: it reads the version of one key, writes a value there, and writes an attempt.
var bare = goredis.NewScript(`
redis.call('GETRANGE', KEYS[1], 0, 7)
redis.call('EXISTS', KEYS[2])
redis.call('SET', KEYS[1], ARGV[1], 'PX', 60000)
redis.call('SET', KEYS[2], ARGV[2], 'PX', 60000)
return {1, redis.call('TIME')[1]}
`)

// times are how long calls took.
type times struct {
	mu  sync.Mutex
	all []time.Duration
}

func (t *times) add(some []time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = append(t.all, some...)
}

func (t *times) report(b *testing.B, name string) (p99 float64) {
	slices.Sort(t.all)
	at := func(p int) float64 { return float64(t.all[(len(t.all)-1)*p/100].Nanoseconds()) / 1000 }
	b.ReportMetric(at(50), name+"p50-us")
	b.ReportMetric(at(99), name+"p99-us")
	return at(99)
}

// measure has callers make calls of several kinds in turn, so that each kind meets the same load of the machine.
func measure(b *testing.B, callers int, names []string, calls ...func(caller, n int)) {
	b.Helper()
	all := make([]times, len(calls))
	var next atomic.Int64
	var running sync.WaitGroup
	b.ResetTimer()
	for c := range callers {
		running.Go(func() {
			took := make([][]time.Duration, len(calls))
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				for i := range calls {
					begin := time.Now()
					calls[i](c, int(n))
					took[i] = append(took[i], time.Since(begin))
				}
			}
			for i := range calls {
				all[i].add(took[i])
			}
		})
	}
	running.Wait()
	b.StopTimer()
	var p99 []float64
	for i := range calls {
		p99 = append(p99, all[i].report(b, names[i]))
	}
	if len(p99) == 2 {
		b.ReportMetric(p99[1]/p99[0], "p99-ratio")
	}
	b.ReportMetric(float64(b.N*len(calls))/b.Elapsed().Seconds(), "calls/s")
}

// BenchmarkLayouts compares attempts with sorted sets and without. Both stores are in the same server, and take turns.
func BenchmarkLayouts(b *testing.B) {
	for _, rule := range []*inline.Rule{
		inlinetest.NewRule(b, "few", window.Sliding, window.Limit{Hits: 100, Per: time.Second}, window.Limit{Hits: 4000, Per: time.Minute}),
		inlinetest.NewRule(b, "many", window.Token, window.Limit{Hits: 1 << 30, Per: time.Hour}),
	} {
		for _, keys := range []int{50_000, 16} {
			for _, callers := range []int{1, 16} {
				b.Run(fmt.Sprintf("%s/keys=%d/callers=%d", rule.Name, keys, callers), func(b *testing.B) {
					server := redistest.Start(b)
					var calls []func(caller, n int)
					for _, open := range []func(testing.TB, Options) *Backend{open, openSorted} {
						s := stored.New(stored.Config{Backend: open(b, Options{URL: "redis://" + server.Addr, Prefix: fmt.Sprint(len(calls))}), Slack: time.Second})
						b.Cleanup(s.Close)
						verdicts := make([]inline.Verdict, callers)
						calls = append(calls, func(c, _ int) {
							if err := s.Take(ctx, &verdicts[c], []inline.Want{{Rule: rule, Key: fmt.Append(nil, rand.IntN(keys)), Cost: 1}}); err != nil {
								b.Error(err)
							}
						})
					}
					measure(b, callers, []string{"packed-", "sorted-"}, calls...)
				})
			}
		}
	}
}

func BenchmarkTake(b *testing.B) {
	server := redistest.Start(b)
	rule := inlinetest.NewRule(b, "quota", window.Sliding, window.Limit{Hits: 100, Per: time.Second}, window.Limit{Hits: 4000, Per: time.Minute})
	wide := inlinetest.NewRule(b, "wide", window.Token, window.Limit{Hits: 1 << 30, Per: time.Second})
	full := inlinetest.NewRule(b, "full", window.Sliding, window.Limit{Hits: 100, Per: time.Hour})
	value, attempt := string(make([]byte, 40)), string(make([]byte, 40))

	client := open(b, Options{URL: "redis://" + server.Addr}).client
	plain := func(key func() string) func(int, int) {
		return func(_, n int) {
			tag := "bare{" + key() + "}"
			if err := bare.Run(ctx, client, []string{tag + "k", fmt.Sprint(tag, "a", n)}, value, attempt).Err(); err != nil {
				b.Error(err)
			}
		}
	}
	taking := func(b *testing.B, stores, callers int, rule *inline.Rule, key func() string) func(c, _ int) {
		var all []*stored.Store
		for range stores {
			s := stored.New(stored.Config{Backend: open(b, Options{URL: "redis://" + server.Addr}), Slack: time.Second})
			b.Cleanup(s.Close)
			all = append(all, s)
		}
		verdicts := make([]inline.Verdict, callers)
		return func(c, _ int) {
			if err := all[c%len(all)].Take(ctx, &verdicts[c], []inline.Want{{Rule: rule, Key: []byte(key()), Cost: 1}}); err != nil {
				b.Error(err)
			}
		}
	}

	var keys atomic.Int64
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprint("many keys/callers=", callers), func(b *testing.B) {
			run := keys.Add(1) // no key of it is known from an earlier run
			key := func() string { return fmt.Sprint(run, " ", rand.IntN(50_000)) }
			measure(b, callers, []string{"bare-", "take-"}, plain(key), taking(b, 1, callers, rule, key))
		})
	}
	hot := func() string { return "hot" }
	for _, stores := range []int{1, 4} {
		for _, of := range []*inline.Rule{wide, full} {
			b.Run(fmt.Sprint("one key/", of.Name, "/stores=", stores), func(b *testing.B) {
				measure(b, 64, []string{"take-"}, taking(b, stores, 64, of, hot))
			})
		}
	}
	b.Run("one key/bare", func(b *testing.B) { measure(b, 64, []string{"bare-"}, plain(hot)) })
}
