package crash

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/kafka/kafkatest"
	"weir/test/real"
)

// longSession is longer than any test waits: partitions of a process that was killed move only when it is removed from
// its group.
const longSession = 25 * time.Minute

// An aggregator that is killed and starts again counts its partitions at once, alone and next to another one.
func TestAKilledAggregatorThatStartsDoesNotWaitForItsSession(t *testing.T) {
	real.Long(t)
	t.Parallel()
	begun := time.Now()
	r := newBranch(t, 4, limited)
	r.session = longSession
	f := r.feed("feed")
	offenders := func(name string) {
		t.Helper()
		for n := range 3 * r.partitions {
			f.hits(of(fmt.Sprintf("%s-%d", name, n)), every(time.Second, 6)...)
		}
		for n := range 3 * r.partitions {
			r.awaitListed(of(fmt.Sprintf("%s-%d", name, n)), true)
		}
	}

	one, two := r.install(), r.install()
	one.start()
	offenders("first")
	one.kill()
	one.start()
	offenders("alone")
	two.start()
	r.eventually("both have partitions", func() error {
		var owned []struct{ Partition int }
		if err := two.get("/v1/partitions", &owned); err != nil || len(owned) != 2 {
			return fmt.Errorf("the second one has %v: %w", owned, err)
		}
		return nil
	})
	two.kill()
	two.start()
	offenders("both")
	r.finish(begun)
}

// A collector that reads a topic, is killed and starts again reads its partitions at once.
func TestAKilledCollectorThatStartsDoesNotWaitForItsSession(t *testing.T) {
	real.Long(t)
	t.Parallel()
	brokers := kafkatest.Shared(t).Addresses()
	shipper := newShipper(t, brokers, 1)
	reader := install(t, brokers, sharedPrefix(t), "unused")
	reader.write("weir.yaml", fmt.Sprintf(`
data: data
kafka: {brokers: [%s], prefix: %q, session: %s, hits: {partitions: %d}}
collector:
  listen: ""
  sources: [{kafka: [logs], format: combined}]
`, strings.Join(brokers, ", "), sharedPrefix(t), longSession, partitions))

	reader.start()
	shipper.run()
	for range 3 {
		time.Sleep(2 * time.Second) // of lines
		reader.kill()
		reader.start()
	}
	want := shipper.close()
	c := newCounter(t, brokers, sharedPrefix(t))
	c.await(t, want)
	reader.stop()
	c.await(t, want)
}
