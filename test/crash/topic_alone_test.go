package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/kafka/kafkatest"
	"weir/internal/topic"
	"weir/internal/topic/local"
	"weir/test/port"
	"weir/test/real"
	"weir/test/wait"
)

// A foreign Kafka is one that Weir may only read, and that others write to.
type foreign struct {
	*kafkatest.Cluster
	shipper *shipper
	source  string // in YAML
}

func newForeign(t testing.TB, seed uint64) *foreign {
	t.Helper()
	f := &foreign{Cluster: kafkatest.Real(t, kafkatest.Options{Secure: true, Guarded: true})}
	f.shipper = newShipper(t, f.Addresses(), seed)
	f.Permit(t, "logs", "Describe", true)
	f.Permit(t, "logs", "Read", true)
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte(kafkatest.Password), 0o600); err != nil {
		t.Fatal(err)
	}
	f.source = fmt.Sprintf("{kafka: [logs], brokers: [%s], tls: {ca: %q}, sasl: {mechanism: plain, user: %s, password_file: %q}, commit: local, format: combined}",
		strings.Join(f.Listener("SASLTLS"), ", "), f.Certificates.Authority, kafkatest.User, password)
	return f
}

// killed kills a process that reads the foreign Kafka again and again, at its start too, and the broker under it once.
func (f *foreign) killed(t testing.TB, process *installation, kills int, seed uint64) (want map[string]int64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 5))
	f.shipper.run()
	for n := range kills {
		process.start()
		time.Sleep(time.Duration(200+random.IntN(2500)) * time.Millisecond)
		if n == kills/2 {
			f.Kill(0)
			time.Sleep(time.Second)
			if err := f.StartBroker(0); err != nil {
				t.Fatal(err)
			}
			if err := f.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		process.kill()
	}
	return f.shipper.close()
}

// A collector reads a topic of a Kafka where it may do nothing else, while Weir's own topics are in another, and is
// killed.
func TestACollectorOfAnotherKafkaThatIsKilledCountsEveryRecordOnce(t *testing.T) {
	real.Long(t)
	t.Parallel()
	kills := number(t, "WEIR_CRASH_KILLS", 8)
	seed := uint64(number(t, "WEIR_CRASH_SEED", int(time.Now().UnixNano()%1e9)))
	f := newForeign(t, seed)
	brokers := kafkatest.Shared(t).Addresses()
	collector := installReaderOf(t, brokers, f.source)
	want := f.killed(t, collector, kills, seed)
	before := f.Content(t)
	collector.start()
	c := newCounter(t, brokers, sharedPrefix(t))
	c.await(t, want)
	collector.stop()
	c.await(t, want)
	f.unchanged(t, before)
	t.Logf("%d lines, %d hits, %d kills, verdicts %v", f.shipper.lines, c.total(), kills, c.verdicts)
	if said := collector.said.String(); strings.Contains(said, "panic") || strings.Contains(said, kafkatest.Password) || t.Failed() {
		t.Error(said)
	}
}

// weir run reads such a topic, with its own topics in its folder, and is killed.
func TestARunThatReadsAnotherKafkaAndIsKilledCountsEveryRecordOnce(t *testing.T) {
	real.Long(t)
	t.Parallel()
	kills := number(t, "WEIR_CRASH_KILLS", 8)
	seed := uint64(number(t, "WEIR_CRASH_SEED", int(time.Now().UnixNano()%1e9)))
	build(t, "weir")
	f := newForeign(t, seed)
	process := &installation{t: t, part: "weir", arguments: []string{"run"}, folder: t.TempDir()}
	process.write("weir.yaml", fmt.Sprintf(`
data: data
kafka: {hits: {partitions: %d}}
rules: [{name: per-ip, key: ip, limits: [10/min]}, {name: per-path, key: path, limits: [10/min]}]
collector: {listen: "", sources: [%s]}
aggregator: {listen: ""}
enforcer: {listen: %q, admin: "", socket: ""}
`, partitions, f.source, port.Reserve(t, "127.0.0.1")))
	t.Cleanup(process.kill)
	want := f.killed(t, process, kills, seed)
	before := f.Content(t)
	process.start()
	client := local.Dial(filepath.Join(process.folder, "data", "topics.sock"))
	t.Cleanup(client.Close)
	wait.Until(t, "it to run", func() bool {
		_, err := client.PartitionSpan(t.Context(), ownPrefix+"hits", 0)
		return err == nil
	})
	c := newCounterOf(topic.Log(client), ownPrefix)
	c.await(t, want)
	f.unchanged(t, before)
	t.Logf("%d lines, %d hits, %d kills, verdicts %v", f.shipper.lines, c.total(), kills, c.verdicts)
	if said := process.said.String(); strings.Contains(said, "panic") || strings.Contains(said, kafkatest.Password) || t.Failed() {
		t.Error(said)
	}
}

// unchanged compares the topics and groups of the Kafka with those of before: only the one topic, and no group.
func (f *foreign) unchanged(t testing.TB, before string) {
	t.Helper()
	if after := f.Content(t); after != before || strings.Count(before, "\n") > 0 || !strings.HasPrefix(before, "topic logs ") {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}
