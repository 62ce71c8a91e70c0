package redis

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"weir/internal/store/redis/redistest"
	"weir/pkg/inline"
	"weir/pkg/inline/stored"
	"weir/pkg/window"
)

// bareQueue does what a queue does at least: it asks for the length, and adds an entry with as many fields.
var bareQueue = goredis.NewScript(`
if redis.call('XLEN', KEYS[1]) >= tonumber(ARGV[1]) then
  return {0, ''}
end
return {1, redis.call('XADD', KEYS[1], '*', 'attempt', ARGV[2], 'rule', 'jobs', 'key', ARGV[3], 'cost', '1', 'time', ARGV[4])}
`)

// BenchmarkQueue compares attempts at a rule that has only a queue with bare calls of a script, in the same server and in
// turn. The streams have room: both add an entry each time. Full ones have it not, and both refuse each time.
func BenchmarkQueue(b *testing.B) {
	server := redistest.Start(b)
	runs := 0
	for _, most := range []int64{inline.MostQueued, 10} {
		for _, callers := range []int{1, 16} {
			b.Run(fmt.Sprintf("at_most=%d/callers=%d", most, callers), func(b *testing.B) {
				runs++
				client := open(b, Options{URL: "redis://" + server.Addr}).client
				stream, other := fmt.Sprint("bare", runs), fmt.Sprint("jobs", runs)
				for n := range 10 {
					for _, one := range []string{stream, other} {
						client.XAdd(ctx, &goredis.XAddArgs{Stream: one, Values: []any{"n", n}})
					}
				}
				defer client.Del(ctx, stream, other)
				plain := func(int, int) {
					err := bareQueue.Run(ctx, client, []string{stream}, most, "019e3c2f7d3a5b1c9a4e0d6f8b2c7e15", rand.IntN(50_000), "2026-03-03T08:00:00.123Z").Err()
					if err != nil {
						b.Error(err)
					}
				}
				s := stored.New(stored.Config{Backend: open(b, Options{URL: "redis://" + server.Addr}), Slack: time.Second})
				b.Cleanup(s.Close)
				policy, err := window.New(window.Config{Limits: []window.Limit{{Hits: 1 << 30, Per: time.Second}}, Block: window.Block{For: time.Minute}})
				if err != nil {
					b.Fatal(err)
				}
				rule := &inline.Rule{Name: "jobs", Policy: policy, Queue: &inline.Queue{Stream: other, AtMost: most, Limit: 1}}
				verdicts := make([]inline.Verdict, callers)
				var admitted atomic.Int64
				take := func(c, _ int) {
					if err := s.Take(ctx, &verdicts[c], []inline.Want{{Rule: rule, Key: fmt.Append(nil, rand.IntN(50_000)), Cost: 1}}); err != nil {
						b.Error(err)
					}
					if verdicts[c].Admitted {
						admitted.Add(1)
					}
				}
				measure(b, callers, []string{"bare-", "queue-"}, plain, take)
				if want := map[bool]int64{true: int64(b.N)}[most > 10]; admitted.Load() != want {
					b.Errorf("%d of %d are admitted", admitted.Load(), b.N)
				}
			})
		}
	}
}
