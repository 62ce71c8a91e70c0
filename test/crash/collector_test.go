// Package crash kills parts of Weir in the middle of their work, on a real Kafka, and checks that everything was
// counted exactly once.
//
// WEIR_CRASH_KILLS is the number of kills (8), WEIR_CRASH_SEED the random seed (the clock's).
package crash

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/kafka/kafkatest"
	"weir/test/real"
)

func number(t testing.TB, name string, otherwise int) int {
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		n = otherwise
	}
	t.Logf("%s=%d", name, n)
	return n
}

func TestACollectorThatIsKilledCountsEveryLineOnce(t *testing.T) {
	t.Parallel()
	kills := number(t, "WEIR_CRASH_KILLS", 8)
	seed := uint64(number(t, "WEIR_CRASH_SEED", int(time.Now().UnixNano()%1e9)))
	brokers := kafkatest.Shared(t).Addresses()
	random := rand.New(rand.NewPCG(seed, 2))
	site := newSite(t, seed)
	collector := install(t, brokers, sharedPrefix(t), site.path("access.log"))
	c := newCounter(t, brokers, sharedPrefix(t))
	site.run(50)
	for n := range kills {
		collector.start()
		if n%2 == 1 { // the others die at their start, where the machine is slow
			c.more(t)
		}
		time.Sleep(time.Duration(random.IntN(700)) * time.Millisecond)
		collector.kill()
	}
	site.close()
	collector.start()
	c.await(t, site.want)
	collector.stop()
	c.await(t, site.want)
	t.Logf("%d lines, %d hits, %d kills, verdicts %v", site.lines, c.total(), kills, c.verdicts)
	if strings.Contains(collector.said.String(), "panic") {
		t.Error(collector.said.String())
	}
}

func TestABrokerThatIsKilledLosesNothing(t *testing.T) {
	real.Long(t)
	t.Parallel()
	seed := uint64(number(t, "WEIR_CRASH_SEED", int(time.Now().UnixNano()%1e9)))
	cluster := kafkatest.Real(t, kafkatest.Options{})
	site := newSite(t, seed)
	collector := install(t, cluster.Addresses(), ownPrefix, site.path("access.log"))
	collector.start()
	site.run(10)
	counter := newCounter(t, cluster.Addresses(), ownPrefix)
	counter.more(t)
	time.Sleep(time.Second)
	cluster.Kill(0)
	time.Sleep(time.Second)
	collector.kill() // with all unacknowledged batches
	collector.start()
	if err := cluster.StartBroker(0); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	site.close()
	counter.await(t, site.want)
}
