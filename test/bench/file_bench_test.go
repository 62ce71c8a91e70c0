package bench

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/kafka/kafkatest"
	"weir/internal/store/redis/redistest"
	"weir/pkg/hit"
	"weir/test/port"
)

const fileLines = 3_000_000

// BenchmarkFileToBlocklist has all of Weir read a log file until the enforcer refuses the clients that broke a limit at
// its very end: in one process, and as three on a real Kafka and Redis. Before that it reads files of a million lines
// each, seven at most, until Kafka has been compiled, as in a cluster in use.
//
//	go test -run '^$' -bench FileToBlocklist -benchtime 1x -timeout 30m ./test/bench
func BenchmarkFileToBlocklist(b *testing.B) {
	b.Run("one-process", func(b *testing.B) {
		measureOneProcess(b, "")
	})
	b.Run("one-process-group", func(b *testing.B) { // with a rule that counts the blocks, and never finds enough
		measureOneProcess(b, "{name: networks, on: blocked, key: ip/24+48, distinct: ip, limits: [1000/10min]}")
	})
	b.Run("apart", func(b *testing.B) {
		cluster := kafkatest.Real(b, kafkatest.Options{Measured: true, MemoryMiB: 1024})
		redis := redistest.Start(b, "--appendonly", "yes")
		w := newSystem(b, riverPartitions, "", fmt.Sprintf("kafka: {brokers: [%s], hits: {partitions: %d}}\nstore: {redis: \"redis://%s/0\"}\n",
			strings.Join(cluster.Addresses(), ", "), riverPartitions, redis.Addr))
		for _, part := range []string{"collector", "aggregator", "enforcer"} {
			w.start(b, part)
		}
		w.kafka = cluster
		w.measure(b)
	})
}

// measureOneProcess measures weir run, with another rule.
func measureOneProcess(b *testing.B, rule string) {
	w := newSystem(b, 2, rule, "kafka: {hits: {retention: 1000h}}\n")
	w.start(b, "weir", "run")
	w.measure(b)
}

// A system is all parts of Weir on a folder of logs.
type system struct {
	running
	folder     string
	partitions int
	enforcer   string
	kafka      *kafkatest.Cluster // nil when it is within
	site       *site
	truth      *textbook
}

func newSystem(b *testing.B, partitions int, rule, more string) *system {
	b.Helper()
	w := &system{folder: b.TempDir(), partitions: partitions, enforcer: port.Reserve(b, "127.0.0.1"), truth: newTextbook(),
		site: newSite(riverClients, beginFor(warmSteps*warmLines+fileLines))}
	config := fmt.Sprintf(`
data: data
client: {trusted_proxies: [127.0.0.1/32]}
rules: [{name: per-ip, key: ip, limits: [10/min, 100/hour, 1000/day], block: {for: 30d}}, %s]
collector: {listen: %q, sources: [{name: site, file: [%q], format: combined}]}
aggregator: {listen: %q}
enforcer: {listen: %q, admin: %q}
%s`, rule, port.Reserve(b, "127.0.0.1"), filepath.Join(w.folder, "*.log"), port.Reserve(b, "127.0.0.1"), w.enforcer, port.Reserve(b, "127.0.0.1"), more)
	if err := os.WriteFile(filepath.Join(w.folder, "weir.yaml"), []byte(config), 0o644); err != nil {
		b.Fatal(err)
	}
	return w
}

func (w *system) start(b *testing.B, program string, arguments ...string) {
	b.Helper()
	path := filepath.Join(w.folder, program)
	if said, err := exec.Command("go", "build", "-o", path, "weir/cmd/"+program).CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, said)
	}
	command := exec.Command(path, append(arguments, "--config", filepath.Join(w.folder, "weir.yaml"))...)
	command.Dir = w.folder
	w.add(b, command)
}

func (w *system) measure(b *testing.B) {
	defer w.stop()
	warm := w.warm(b)
	round := warm + 1
	w.write(b, "measured", fileLines, round)
	before := map[*process]float64{}
	for _, p := range w.processes {
		before[p] = p.processorSeconds(b)
	}
	kafkaBefore, compiledBefore := w.kafkaSeconds(), w.compiling(w.kafka)
	for b.Loop() {
		began := time.Now()
		w.release(b, "measured", round)
		w.await(b, round)
		b.ReportMetric(fileLines/time.Since(began).Seconds(), "lines/s")
	}
	b.ReportMetric(float64(warm*warmLines), "warm-lines")
	if w.kafka != nil {
		b.ReportMetric((w.kafkaSeconds()-kafkaBefore)/fileLines*1e6, "kafka-cpu-s/million")
		b.ReportMetric((w.compiling(w.kafka) - compiledBefore).Seconds(), "compiler-cpu-s")
	}
	all := 0.0
	for _, p := range w.processes {
		used := (p.processorSeconds(b) - before[p]) / fileLines * 1e6
		all += used
		b.ReportMetric(used, filepath.Base(p.Path)+"-cpu-s/million")
	}
	b.ReportMetric(all, "cpu-s/million")
	b.ReportMetric(w.memoryMiB(b), "MiB")
	w.compare(b)
}

// write writes lines into a file that is not a log yet. At its end a client of each partition breaks a limit.
func (w *system) write(b *testing.B, name string, lines, round int) {
	b.Helper()
	file, err := os.Create(filepath.Join(w.folder, name))
	if err != nil {
		b.Fatal(err)
	}
	buffer := bufio.NewWriterSize(file, 1<<20)
	for range lines {
		text, client, at := w.site.line()
		w.truth.add(client, at)
		buffer.WriteString(text + "\n")
	}
	for _, client := range w.last(round) {
		for range threeLimits[0].hits + 1 {
			fmt.Fprintf(buffer, "%s - - [%s] \"GET / HTTP/1.1\" 200 2 \"-\" \"-\"\n", client, w.site.at.Format("02/Jan/2006:15:04:05 -0700"))
		}
	}
	if err := buffer.Flush(); err != nil {
		b.Fatal(err)
	}
	if err := file.Close(); err != nil {
		b.Fatal(err)
	}
}

// release makes it the log of that round.
func (w *system) release(b *testing.B, name string, round int) {
	path := filepath.Join(w.folder, name)
	if err := os.Rename(path, fmt.Sprintf("%s-%d.log", path, round)); err != nil {
		b.Fatal(err)
	}
}

func (w *system) kafkaSeconds() float64 {
	if w.kafka == nil {
		return 0
	}
	return w.kafka.CPU().Seconds()
}

// last are the clients at the end of a round's file, one of each partition.
func (w *system) last(round int) []string {
	clients := make([]string, w.partitions)
	for n, left := 0, w.partitions; left > 0; n++ {
		client := fmt.Sprintf("198.%d.%d.%d", 17+round, n/250, 1+n%250)
		if p := hit.Partition("per-ip", []byte(client), w.partitions); clients[p] == "" {
			clients[p] = client
			left--
		}
	}
	return clients
}

// await returns when the enforcer refuses the last clients of a round.
func (w *system) await(b *testing.B, round int) {
	b.Helper()
	deadline := time.Now().Add(10 * time.Minute)
	for _, client := range w.last(round) {
		for !w.refuses(client) {
			w.alive(b)
			if time.Now().After(deadline) {
				b.Fatal("not all was read")
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func (w *system) refuses(client string) bool {
	request, err := http.NewRequest(http.MethodGet, "http://"+w.enforcer+"/v1/check", nil)
	if err != nil {
		return false
	}
	request.Header.Set("X-Forwarded-For", client)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusTooManyRequests
}

// compare asks the enforcer about every client.
func (w *system) compare(b *testing.B) {
	b.Helper()
	found, wrong := 0, 0
	for client := range w.truth.times {
		switch refused := w.refuses(client); {
		case refused && w.truth.offenders[client] != 0:
			found++
		case refused:
			wrong++
		}
	}
	b.ReportMetric(100*float64(found)/float64(len(w.truth.offenders)), "%found")
	b.ReportMetric(float64(wrong), "wrong")
}
