package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
	"golang.org/x/time/rate"

	"weir/pkg/inline"
	"weir/pkg/window"
)

// takeLimits are those of each contender. A single key that is asked for all the time is nearly always refused; of
// 100,000 keys each is nearly always admitted.
var takeLimits = []window.Limit{{Hits: 100, Per: time.Second}, {Hits: 4000, Per: time.Minute}}

// A taker makes attempts of keys in one goroutine.
type taker func(key int)

// A takeContender makes takers, which share its limits.
type takeContender struct {
	name string
	open func(testing.TB, []string) (newTaker func() taker)
	// alone is for one that several goroutines may not use.
	alone bool
}

var takeContenders = []takeContender{
	{"policy", takePolicy, true},
	{"memory", takeMemory, false},
	{"rate-mutex", takeRateMutex, false},
	{"rate-syncmap", takeRateSyncMap, false},
	{"go-limiter", takeGoLimiter, false},
}

func takeRulePolicy(tb testing.TB) *window.Policy {
	p, err := window.New(window.Config{Limits: takeLimits, Block: window.Block{For: time.Minute}, Remember: 4096})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// takePolicy looks no key up: its states are in a row.
func takePolicy(tb testing.TB, keys []string) func() taker {
	p, states := takeRulePolicy(tb), make([]window.State, len(keys))
	return func() taker {
		return func(key int) { p.Take(&states[key], time.Now().UnixMilli(), 1) }
	}
}

func takeMemory(tb testing.TB, keys []string) func() taker {
	m, rule := inline.New(inline.Config{}), &inline.Rule{Name: "quota", Policy: takeRulePolicy(tb)}
	texts := make([][]byte, len(keys))
	for i, key := range keys {
		texts[i] = []byte(key)
	}
	return func() taker {
		var v inline.Verdict
		wants := []inline.Want{{Rule: rule, Cost: 1}}
		return func(key int) {
			wants[0].Key = texts[key]
			m.Take(tb.Context(), &v, wants)
		}
	}
}

// ratePair are the two limiters of a key.
type ratePair struct{ second, minute *rate.Limiter }

func newRatePair() *ratePair {
	of := func(l window.Limit) *rate.Limiter {
		return rate.NewLimiter(rate.Limit(float64(l.Hits)/l.Per.Seconds()), int(l.Hits))
	}
	return &ratePair{of(takeLimits[0]), of(takeLimits[1])}
}

func (p *ratePair) allow() bool { return p.second.Allow() && p.minute.Allow() }

func takeRateMutex(_ testing.TB, keys []string) func() taker {
	var mu sync.Mutex
	pairs := map[string]*ratePair{}
	return func() taker {
		return func(key int) {
			mu.Lock()
			p := pairs[keys[key]]
			if p == nil {
				p = newRatePair()
				pairs[keys[key]] = p
			}
			mu.Unlock()
			p.allow()
		}
	}
}

func takeRateSyncMap(_ testing.TB, keys []string) func() taker {
	var pairs sync.Map
	return func() taker {
		return func(key int) {
			p, ok := pairs.Load(keys[key])
			if !ok {
				p, _ = pairs.LoadOrStore(keys[key], newRatePair())
			}
			p.(*ratePair).allow()
		}
	}
}

func takeGoLimiter(tb testing.TB, keys []string) func() taker {
	ctx := context.Background()
	var stores []limiter.Store
	for _, l := range takeLimits {
		store, err := memorystore.New(&memorystore.Config{Tokens: uint64(l.Hits), Interval: l.Per})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = store.Close(ctx) })
		stores = append(stores, store)
	}
	return func() taker {
		return func(key int) {
			for _, store := range stores {
				if _, _, _, ok, err := store.Take(ctx, keys[key]); err != nil || !ok {
					return
				}
			}
		}
	}
}

// BenchmarkTakeNextToOthers measures one attempt at two limits of a key. The contenders take turns. Each metric is the
// median of the turns: the time of an attempt, and its allocations.
func BenchmarkTakeNextToOthers(b *testing.B) {
	for _, keys := range []int{1, 100_000} {
		for _, goroutines := range []int{1, runtime.GOMAXPROCS(0)} {
			b.Run(fmt.Sprintf("keys=%d/goroutines=%d", keys, goroutines), func(b *testing.B) { takeTurns(b, keys, goroutines) })
		}
	}
}

func takeTurns(b *testing.B, many, goroutines int) {
	const turn = 200_000 // attempts
	keys := make([]string, many)
	for i := range keys {
		keys[i] = fmt.Sprint("user-", i)
	}
	order := make([]int32, turn)

	var contenders []takeContender
	var takers [][]taker
	for _, c := range takeContenders {
		if c.alone && goroutines > 1 {
			continue
		}
		newTaker := c.open(b, keys)
		var own []taker
		for range goroutines {
			own = append(own, newTaker())
		}
		for key := range keys { // each key exists
			own[0](key)
		}
		contenders, takers = append(contenders, c), append(takers, own)
	}

	times, allocations := make([][]float64, len(contenders)), make([][]float64, len(contenders))
	for b.Loop() {
		for i := range order {
			order[i] = int32(rand.IntN(many))
		}
		for i := range contenders {
			took, allocated := takeTurn(takers[i], order)
			times[i] = append(times[i], float64(took.Nanoseconds())/turn)
			allocations[i] = append(allocations[i], float64(allocated)/turn)
		}
	}

	b.ReportMetric(0, "ns/op") // of all turns together
	for i, c := range contenders {
		b.ReportMetric(median(times[i]), c.name+"-ns")
		b.ReportMetric(median(allocations[i]), c.name+"-allocs")
	}
}

// takeTurn makes one attempt for each key of order, shared out among the takers.
func takeTurn(takers []taker, order []int32) (took time.Duration, allocated uint64) {
	var before, after runtime.MemStats
	var all sync.WaitGroup
	runtime.GC() // what others have left
	runtime.ReadMemStats(&before)
	began := time.Now()
	for i, take := range takers {
		part := order[i*len(order)/len(takers) : (i+1)*len(order)/len(takers)]
		all.Go(func() {
			for _, key := range part {
				take(int(key))
			}
		})
	}
	all.Wait()
	took = time.Since(began)
	runtime.ReadMemStats(&after)
	return took, after.Mallocs - before.Mallocs
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}
