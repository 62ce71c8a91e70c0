package crash

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/kafka/kafkatest"
	"weir/test/real"
	"weir/test/streams"
	"weir/test/wait"
)

// A streamServer is a server that keeps logs.
type streamServer struct {
	source  string // in YAML
	write   func(lines []string)
	restart func() // kills it and starts it again; nothing is written meanwhile
}

// streamServers make a server of each kind.
var streamServers = map[string]func(testing.TB) *streamServer{
	"journald": newJournal, "redis": newRedisStream, "nats": newNATSStream, "amqp": newRabbitStream,
	"s3": newObjects, "sqs": newObjectsOfEvents, "kinesis": newKinesis, "hdfs": newHDFS, "hdfs-open": newOpenHDFS,
}

// A collector that is killed while it reads, and under which the server is restarted, counts every request once.
func TestACollectorOfStreamsThatIsKilledCountsEveryRequestOnce(t *testing.T) {
	for name, make := range streamServers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killReader(t, make(t), 20_000, 3)
		})
	}
}

func TestACollectorOfStreamsThatIsKilledOftenCountsEveryRequestOnce(t *testing.T) {
	real.Long(t)
	for name, make := range streamServers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kills := often(t, name)
			killReader(t, make(t), min(20_000*kills, 400_000), kills)
		})
	}
}

// often is how many times a test kills a process that long tests kill often. With these kinds that takes minutes, so
// make long kills few times; make crash kills KILLS times with every kind, and WEIR_CRASH_KILLS=20 does so for one test.
func often(t testing.TB, kind string) int {
	t.Helper()
	if slices.Contains([]string{"hdfs", "hdfs-open", "kinesis", "dedupe"}, kind) {
		return number(t, "WEIR_CRASH_KILLS", 5)
	}
	return number(t, "WEIR_CRASH_KILLS", 20)
}

// installReaderOf installs a collector with one source, on the Kafka of all tests.
func installReaderOf(t *testing.T, brokers []string, source string) *installation {
	t.Helper()
	collector := install(t, brokers, sharedPrefix(t), "unused")
	collector.write("weir.yaml", fmt.Sprintf(`
data: data
kafka: {brokers: [%s], prefix: %q, hits: {partitions: %d}}
collector:
  listen: ""
  sources: [%s]
`, strings.Join(brokers, ", "), sharedPrefix(t), partitions, source))
	return collector
}

// killReader kills a collector again and again while requests are written, and the server once, or where a test kills
// often, about every third time. However slowly the server
// takes them, the kills are spread over all of them, each while there are lines to read.
func killReader(t *testing.T, server *streamServer, requests, kills int) {
	t.Helper()
	random := rand.New(rand.NewPCG(uint64(number(t, "WEIR_CRASH_SEED", int(time.Now().UnixNano()%1e9))), 7))
	brokers := kafkatest.Shared(t).Addresses()
	collector := installReaderOf(t, brokers, server.source)

	var writing sync.Mutex // nothing is written while the server restarts
	var writer sync.WaitGroup
	want := map[string]int64{}
	var written atomic.Int64
	writer.Go(func() {
		const batch = 500
		pause := time.Duration(kills) * time.Second * batch / time.Duration(requests)
		for n := 0; n < requests; n += batch {
			lines := make([]string, batch)
			for i := range lines {
				lines[i] = streams.Line(n + i)
				want[fmt.Sprintf("per-ip 203.0.113.%d", (n+i)%50)]++
				want[fmt.Sprintf("per-path /%d", (n+i)%20)]++
			}
			writing.Lock()
			server.write(lines)
			writing.Unlock()
			written.Store(int64(n + batch))
			if n > requests/4 { // the first ones are a backlog
				time.Sleep(pause)
			}
		}
	})
	for n := range kills {
		wait.Until(t, "lines to read before the next kill", func() bool { return written.Load() >= int64(requests*n/kills) })
		collector.start()
		time.Sleep(time.Duration(300+random.IntN(1200)) * time.Millisecond)
		if n == kills/2 || kills > 3 && random.IntN(3) == 0 {
			writing.Lock()
			server.restart()
			writing.Unlock()
			time.Sleep(time.Second)
		}
		collector.kill()
	}
	writer.Wait()
	collector.start()
	c := newCounter(t, brokers, sharedPrefix(t))
	c.await(t, want)
	collector.stop()
	c.await(t, want)
	t.Logf("%d requests, %d hits, %d kills, verdicts %v", requests, c.total(), kills, c.verdicts)
	if said := collector.said.String(); strings.Contains(said, "panic") || t.Failed() {
		t.Error(said)
	}
}
