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
	"weir/internal/topic/local"
	"weir/test/port"
	"weir/test/rabbit"
	"weir/test/real"
	"weir/test/wait"
)

// dedupeSource is how requests with an id are read.
const dedupeSource = `format: '$remote_addr [$time_iso8601] "$request" $status $request_id', dedupe: {by: request_id}`

// A repeater writes requests once, twice or thrice, at different times.
type repeater struct {
	random  *rand.Rand
	write   func(lines []string)
	lines   int
	want    map[string]int64
	pending []string // to be written again
	stop    chan struct{}
	ended   chan struct{}
}

func newRepeater(seed uint64, write func([]string)) *repeater {
	return &repeater{random: rand.New(rand.NewPCG(seed, 3)), write: write, want: map[string]int64{}, stop: make(chan struct{}), ended: make(chan struct{})}
}

func (r *repeater) batch() (lines []string) {
	for range 1 + r.random.IntN(100) {
		n := r.lines
		r.lines++
		r.want[fmt.Sprintf("per-ip 203.0.113.%d", n%50)]++
		r.want[fmt.Sprintf("per-path /%d", n%20)]++
		line := fmt.Sprintf("203.0.113.%d [%s] \"GET /%d HTTP/1.1\" 200 id-%d", n%50, time.Now().UTC().Format("2006-01-02T15:04:05.000Z07:00"), n%20, n)
		lines = append(lines, line)
		for range r.random.IntN(3) {
			r.pending = append(r.pending, line)
		}
	}
	r.random.Shuffle(len(r.pending), func(i, k int) { r.pending[i], r.pending[k] = r.pending[k], r.pending[i] })
	most := max(0, len(r.pending)-2000) // some are written seconds later
	n := most + r.random.IntN(min(len(r.pending)-most, 100)+1)
	lines, r.pending = append(lines, r.pending[:n]...), r.pending[n:]
	return lines
}

func (r *repeater) run() {
	go func() {
		defer close(r.ended)
		for {
			select {
			case <-r.stop:
				r.write(r.pending)
				return
			case <-time.After(time.Duration(r.random.IntN(20)) * time.Millisecond):
				r.write(r.batch())
			}
		}
	}()
}

func (r *repeater) close() map[string]int64 {
	close(r.stop)
	<-r.ended
	return r.want
}

// intoFiles writes each line into one of two logs of a folder.
func intoFiles(t testing.TB, folder string, random *rand.Rand) func([]string) {
	t.Helper()
	var files [2]*os.File
	for i := range files {
		var err error
		if files[i], err = os.Create(filepath.Join(folder, fmt.Sprintf("%d.log", i))); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { files[i].Close() })
	}
	return func(lines []string) {
		for _, line := range lines {
			if _, err := files[random.IntN(len(files))].WriteString(line + "\n"); err != nil {
				t.Error(err)
			}
		}
	}
}

// killedWhileRepeating kills a process again and again while requests are repeated, and returns what counts.
func killedWhileRepeating(t testing.TB, process *installation, kills int, random *rand.Rand, r *repeater) map[string]int64 {
	t.Helper()
	r.run()
	for range kills {
		process.start()
		time.Sleep(time.Duration(200+random.IntN(1500)) * time.Millisecond)
		process.kill()
	}
	want := r.close()
	process.start()
	return want
}

// countsOnce kills a collector with a source, and reads what it has sent to Kafka.
func countsOnce(t *testing.T, source string, write func([]string), kills int) {
	t.Helper()
	seed := uint64(number(t, "WEIR_CRASH_SEED", int(time.Now().UnixNano()%1e9)))
	brokers := kafkatest.Shared(t).Addresses()
	collector := install(t, brokers, sharedPrefix(t), "unused")
	collector.write("weir.yaml", fmt.Sprintf("data: data\nkafka: {brokers: [%s], prefix: %q, hits: {partitions: %d}}\ncollector:\n  listen: ''\n  sources: [%s]\n",
		strings.Join(brokers, ", "), sharedPrefix(t), partitions, source))
	r := newRepeater(seed, write)
	want := killedWhileRepeating(t, collector, kills, rand.New(rand.NewPCG(seed, 4)), r)
	c := newCounter(t, brokers, sharedPrefix(t))
	c.await(t, want)
	collector.stop()
	c.await(t, want)
	t.Logf("%d requests, %d hits, %d kills, verdicts %v", r.lines, c.total(), kills, c.verdicts)
	if said := collector.said.String(); strings.Contains(said, "panic") || t.Failed() {
		t.Error(said)
	}
}

// Requests stand once, twice or thrice in two files, and a collector is killed in between: each counts once.
func TestRepeatedRequestsOfFilesCountOnce(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	countsOnce(t, fmt.Sprintf("{file: %q, %s}", filepath.Join(folder, "*.log"), dedupeSource),
		intoFiles(t, folder, rand.New(rand.NewPCG(1, 1))), number(t, "WEIR_CRASH_KILLS", 8))
}

// The same in streams of servers.
func TestRepeatedRequestsOfStreamsCountOnce(t *testing.T) {
	real.Long(t)
	for _, name := range []string{"redis", "nats"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := streamServers[name](t)
			countsOnce(t, strings.Replace(server.source, "format: combined", dedupeSource, 1), server.write, often(t, "dedupe"))
		})
	}
}

// The same in one process without Kafka, from files and from a queue.
func TestRepeatedRequestsOfARunCountOnce(t *testing.T) {
	real.Long(t)
	t.Run("files", func(t *testing.T) {
		t.Parallel()
		folder := t.TempDir()
		runCountsOnce(t, fmt.Sprintf("file: %q", filepath.Join(folder, "*.log")), intoFiles(t, folder, rand.New(rand.NewPCG(1, 5))))
	})
	t.Run("queue", func(t *testing.T) {
		t.Parallel()
		server := rabbit.Start(t, "")
		server.Make("logs", "classic")
		runCountsOnce(t, fmt.Sprintf("amqp: {url: %q, queue: logs, acknowledge: true}", "amqp://"+server.Addr), func(lines []string) { server.Add("logs", lines) })
	})
}

// runCountsOnce kills one process with a source, and reads the hits in its database.
func runCountsOnce(t *testing.T, source string, write func([]string)) {
	t.Helper()
	seed := uint64(number(t, "WEIR_CRASH_SEED", int(time.Now().UnixNano()%1e9)))
	build(t, "weir")
	process := &installation{t: t, part: "weir", arguments: []string{"run"}, folder: t.TempDir()}
	process.write("weir.yaml", fmt.Sprintf(`
data: data
kafka: {hits: {partitions: %d}}
rules: [{name: per-ip, key: ip, limits: [10/min]}, {name: per-path, key: path, limits: [10/min]}]
collector: {listen: "", sources: [{%s, %s}]}
aggregator: {listen: ""}
enforcer: {listen: %q, admin: "", socket: ""}
`, partitions, source, dedupeSource, port.Reserve(t, "127.0.0.1")))
	t.Cleanup(process.kill)
	r := newRepeater(seed, write)
	kills := often(t, "dedupe")
	want := killedWhileRepeating(t, process, kills, rand.New(rand.NewPCG(seed, 4)), r)
	client := local.Dial(filepath.Join(process.folder, "data", "topics.sock"))
	t.Cleanup(client.Close)
	wait.Until(t, "it to run", func() bool {
		_, err := client.PartitionSpan(t.Context(), ownPrefix+"hits", 0)
		return err == nil
	})
	c := newCounterOf(client, ownPrefix)
	c.await(t, want)
	t.Logf("%d requests, %d hits, %d kills, verdicts %v", r.lines, c.total(), kills, c.verdicts)
	if said := process.said.String(); strings.Contains(said, "panic") || t.Failed() {
		t.Error(said)
	}
}
