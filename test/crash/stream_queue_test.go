package crash

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/kafka/kafkatest"
	"weir/test/rabbit"
	"weir/test/wait"
)

// A collector that is killed while it takes messages out of a queue, and under which the server is killed, loses none. A
// message that comes again may count twice, and with dedupe it does not.
func TestACollectorOfAQueueThatIsKilledLosesNothing(t *testing.T) {
	for name, more := range map[string]string{"once": ", dedupe: {by: request_id}", "at least once": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(uint64(number(t, "WEIR_CRASH_SEED", int(time.Now().UnixNano()%1e9))), 8))
			server := rabbit.Start(t, "")
			server.Make("logs", "classic")
			brokers := kafkatest.Shared(t).Addresses()
			collector := installReaderOf(t, brokers, fmt.Sprintf(`{amqp: {url: %q, queue: logs, acknowledge: true}, format: '$remote_addr [$time_iso8601] "$request" $status $request_id'%s}`,
				"amqp://"+server.Addr, more))

			var writing sync.Mutex // nothing is written while the server restarts
			var writer sync.WaitGroup
			kills := number(t, "WEIR_CRASH_KILLS", 3)
			ends, want, requests := make(chan struct{}), map[string]int64{}, 0
			writer.Go(func() {
				for {
					select {
					case <-ends:
						return
					case <-time.After(20 * time.Millisecond):
					}
					var lines []string
					for range 200 {
						requests++
						lines = append(lines, fmt.Sprintf("203.0.113.%d [%s] \"GET /%d HTTP/1.1\" 200 id-%d", requests%50, time.Now().UTC().Format(time.RFC3339), requests%20, requests))
						want[fmt.Sprintf("per-ip 203.0.113.%d", requests%50)]++
						want[fmt.Sprintf("per-path /%d", requests%20)]++
					}
					writing.Lock()
					server.Add("logs", lines)
					writing.Unlock()
				}
			})
			for n := range kills {
				collector.start()
				time.Sleep(time.Duration(300+random.IntN(1200)) * time.Millisecond)
				if n == kills/2 {
					writing.Lock()
					server.Kill()
					server.Restart()
					writing.Unlock()
					time.Sleep(time.Second)
				}
				collector.kill()
			}
			close(ends)
			writer.Wait()

			collector.start()
			c := newCounter(t, brokers, sharedPrefix(t))
			c.awaitAtLeast(t, want)
			wait.Until(t, "all to be acknowledged", func() bool {
				if server.Ready("logs") > 0 {
					return false
				}
				collector.stop()
				all := server.Ready("logs") == 0 // and none came back
				if !all {
					collector.start()
				}
				return all
			})
			if more != "" {
				c.await(t, want)
			}
			t.Logf("%d requests, %d hits of %d, %d kills, verdicts %v", requests, c.total(), sum(want), kills, c.verdicts)
			if said := collector.said.String(); strings.Contains(said, "panic") || t.Failed() {
				t.Error(said)
			}
		})
	}
}
