package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/internal/store/redis/redistest"
	"weir/pkg/blocklist"
	"weir/test/port"
)

const (
	riverPartitions = 8
	riverClients    = 100_000
	riverLines      = 4_000_000
	linesTopic      = "lines"
)

// A contender finds offenders in a topic of log lines.
type contender struct {
	name  string
	start func(b *testing.B, r *river) *running
}

// running is a started contender.
type running struct {
	processes []*process
	groups    string                    // the prefix of its groups' names
	topics    []string                  // that these read
	out       string                    // the topic of its verdicts
	offender  func(kafka.Record) string // of a verdict; empty if the record is not one
	busy      busy
	redis     *redistest.Server // with its counts, if any
}

// A process is a running process, and the file of its output.
type process struct {
	*exec.Cmd
	log   string
	ended chan struct{}
}

var contenders = []contender{
	{"weir", startWeir},
	{"streams-ring", streams("ring", "at_least_once")},
	{"streams-ring-exactly-once", streams("ring", "exactly_once_v2")},
	{"streams-ring-uncached", streams("ring-uncached", "at_least_once")},
	{"streams-tumbling", streams("tumbling", "at_least_once")},
}

// BenchmarkRiver has each contender read the lines of the same site from a topic of a real Kafka, from the beginning:
// first a million at a time until the Java parts have been compiled, as in a cluster in use, seven million at most;
// then four million while the processor time of its processes is measured. It reports the cost of a million lines, the
// memory at the end, how many of a textbook's offenders were found, and how much was still compiled during the
// measurement:
//
//	go test -run '^$' -bench River -benchtime 1x -timeout 60m ./test/bench
//
// WEIR_SITE_LOG may name a real log of the combined format, packed with gzip, that is replayed in place of the site's.
func BenchmarkRiver(b *testing.B) {
	for _, c := range contenders {
		b.Run(c.name, func(b *testing.B) {
			r := newRiver(b)
			for b.Loop() {
				r.measure(b, c)
			}
		})
	}
}

// A river is a Kafka with a topic of lines.
type river struct {
	cluster  *kafkatest.Cluster
	client   *kafka.Client
	producer *kafka.Producer
	line     func() (text, client string, at time.Time) // the next one
	truth    *textbook
	next     int // partition
}

func newRiver(b *testing.B) *river {
	b.Helper()
	cluster := kafkatest.Real(b, kafkatest.Options{Measured: true, MemoryMiB: 1024})
	r := &river{cluster: cluster, client: kafkatest.Client(b, kafka.Config{Brokers: cluster.Addresses(), Create: true}), truth: newTextbook(),
		line: riverLine(b)}
	topics := []kafka.Topic{{Name: linesTopic, Partitions: riverPartitions, Settings: map[string]string{"cleanup.policy": "delete"}}, {Name: "offenders", Partitions: 1, Settings: map[string]string{"cleanup.policy": "delete"}}}
	if err := r.client.EnsureTopics(b.Context(), topics...); err != nil {
		b.Fatal(err)
	}
	r.producer = r.client.OpenProducer(kafka.ProducerConfig{Topic: linesTopic, Partitions: riverPartitions})
	b.Cleanup(func() { r.producer.Close(context.Background()) })
	return r
}

// riverLine returns one line after another of the log that is read.
func riverLine(b *testing.B) func() (text, client string, at time.Time) {
	lines := warmSteps*warmLines + riverLines
	if path := os.Getenv("WEIR_SITE_LOG"); path != "" {
		return newReplay(b, path, lines).line
	}
	return newSite(riverClients, beginFor(lines)).line
}

// fill writes lines without keys, a thousand to a partition in turn, as shippers do.
func (r *river) fill(b *testing.B, lines int) {
	b.Helper()
	written := make(chan error, lines)
	for range lines / 1000 {
		messages := make([]kafka.Message, 1000)
		for i := range messages {
			text, client, at := r.line()
			r.truth.add(client, at)
			messages[i] = kafka.Message{Partition: r.next, Value: []byte(text), Done: func(_ int64, err error) { written <- err }}
		}
		r.next = (r.next + 1) % riverPartitions
		if err := r.producer.Send(b.Context(), messages...); err != nil {
			b.Fatal(err)
		}
	}
	for range lines / 1000 * 1000 {
		if err := <-written; err != nil {
			b.Fatal(err)
		}
	}
}

func (r *river) measure(b *testing.B, c contender) {
	r.fill(b, warmLines)
	started := c.start(b, r)
	defer started.stop()
	r.warm(b, started)
	r.await(b, started)
	before := started.processorSeconds(b)
	r.fillAhead(b, started, riverLines)
	started.busy = busy{at: time.Now(), used: before}
	compiledBefore := started.compiling(r.cluster)
	kafkaBefore, redisBefore := r.cluster.CPU().Seconds(), started.redisSeconds(b)
	r.await(b, started)
	used := started.processorSeconds(b) - before
	b.ReportMetric((started.compiling(r.cluster) - compiledBefore).Seconds(), "compiler-cpu-s")
	b.ReportMetric(riverLines/started.busy.took.Seconds(), "lines/s")
	b.ReportMetric(used/riverLines*1e6, "cpu-s/million")
	b.ReportMetric((r.cluster.CPU().Seconds()-kafkaBefore)/riverLines*1e6, "kafka-cpu-s/million")
	b.ReportMetric((started.redisSeconds(b)-redisBefore)/riverLines*1e6, "redis-cpu-s/million")
	b.ReportMetric(started.memoryMiB(b), "MiB")
	found, wrong := r.offenders(b, started)
	b.ReportMetric(100*float64(found)/float64(len(r.truth.offenders)), "%found")
	b.ReportMetric(float64(wrong), "wrong")
}

// await returns when the groups have read all lines.
func (r *river) await(b *testing.B, c *running) {
	b.Helper()
	deadline := time.Now().Add(20 * time.Minute)
	for seen := 0; seen < 3; time.Sleep(100 * time.Millisecond) { // a stage may still fill the next one
		c.busy.look(time.Now(), c.processorSeconds(b))
		c.alive(b)
		if r.caughtUp(b, c) {
			seen++
		} else {
			seen = 0
		}
		if time.Now().After(deadline) {
			b.Fatal("not all was read")
		}
	}
}

func (r *river) caughtUp(b *testing.B, c *running) bool {
	groups, err := r.client.Groups(b.Context(), c.groups)
	if err != nil {
		return false
	}
	for _, topic := range c.topics {
		spans, err := r.client.Offsets(b.Context(), topic)
		if err != nil {
			return false
		}
		for partition, span := range spans {
			reached := int64(-1)
			for _, g := range groups {
				if commit, ok := g.Commits[topic][partition]; ok {
					reached = max(reached, commit.Offset)
				}
			}
			if reached < span.End && span.End > 0 {
				return false
			}
		}
	}
	return len(groups) > 0
}

// offenders is how many of the truth's offenders a contender has found, and how many others.
func (r *river) offenders(b *testing.B, c *running) (found, wrong int) {
	b.Helper()
	span, err := r.client.PartitionSpan(b.Context(), c.out, 0)
	if err != nil {
		b.Fatal(err)
	}
	said := map[string]bool{}
	for reader := r.client.NewReader(c.out, 0, span.Start); reader.Next() < span.End; {
		records, err := reader.Fetch(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		for _, record := range records {
			if who := c.offender(record); who != "" {
				said[who] = true
			}
		}
	}
	for who := range said {
		if r.truth.offenders[who] {
			found++
		} else {
			wrong++
		}
	}
	return found, wrong
}

// alive fails the benchmark with the output of a process that has ended.
func (c *running) alive(b *testing.B) {
	b.Helper()
	for _, p := range c.processes {
		select {
		case <-p.ended:
			said, _ := os.ReadFile(p.log)
			b.Fatalf("%s has ended: %s", p.Path, said)
		default:
		}
	}
}

func (c *running) stop() {
	for _, p := range c.processes {
		p.Process.Signal(syscall.SIGTERM)
	}
	for _, p := range c.processes {
		<-p.ended
	}
}

const ticksPerSecond = 100 // of Linux, whatever the machine's clock

func (c *running) processorSeconds(b *testing.B) float64 {
	b.Helper()
	total := 0.0
	for _, p := range c.processes {
		total += p.processorSeconds(b)
	}
	return total
}

func (p *process) processorSeconds(b *testing.B) float64 { return processorSeconds(b, p.Process.Pid) }

func processorSeconds(b *testing.B, pid int) (total float64) {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	for _, field := range fields[11:13] { // user and system
		ticks, err := strconv.ParseFloat(field, 64)
		if err != nil {
			b.Fatal(err)
		}
		total += ticks / ticksPerSecond
	}
	return total
}

func (c *running) memoryMiB(b *testing.B) float64 {
	b.Helper()
	total := 0.0
	for _, p := range c.processes {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
		if err != nil {
			b.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(status), "VmHWM:")
		kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
		if err != nil {
			b.Fatal(err)
		}
		total += kib / 1024
	}
	return total
}

func (c *running) add(b *testing.B, command *exec.Cmd) {
	b.Helper()
	log, err := os.Create(filepath.Join(b.TempDir(), "log"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { log.Close() })
	command.Stderr, command.Stdout = log, log
	if err := command.Start(); err != nil {
		b.Fatal(err)
	}
	p := &process{command, log.Name(), make(chan struct{})}
	c.processes = append(c.processes, p)
	go func() {
		command.Wait()
		close(p.ended)
	}()
}

// streams starts the Kafka Streams job.
func streams(how, guarantee string) func(*testing.B, *river) *running {
	return func(b *testing.B, r *river) *running {
		for _, program := range []string{"mvn", "java"} {
			if _, err := exec.LookPath(program); err != nil {
				b.Skipf("%s is not installed", program)
			}
		}
		build := exec.Command("mvn", "-q", "-B", "package", "dependency:copy-dependencies", "-DincludeScope=runtime")
		build.Dir = "streams"
		if said, err := build.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, said)
		}
		id := "offenders-" + how + "-" + strings.ReplaceAll(guarantee, "_", "-")
		c := &running{groups: id, topics: []string{linesTopic}, out: "offenders", offender: func(record kafka.Record) string { return string(record.Key) }}
		c.add(b, exec.Command("java", "-Xmx1g", kafkatest.KeepCompilers, "-cp", "streams/target/streams-1.jar:streams/target/dependency/*", "weir.bench.Offenders",
			strings.Join(r.cluster.Addresses(), ","), linesTopic, "offenders", how, guarantee, b.TempDir(), strconv.Itoa(riverPartitions)))
		c.topics = append(c.topics, r.repartitioned(b, id))
		return c
	}
}

// repartitioned waits for the topic that the job creates.
func (r *river) repartitioned(b *testing.B, id string) string {
	b.Helper()
	for range 600 {
		cluster, err := r.client.Cluster(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		for _, topic := range cluster.Topics {
			if strings.HasPrefix(topic, id) && strings.HasSuffix(topic, "-repartition") {
				return topic
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	b.Fatal("the job never made its topic")
	return ""
}

// startWeir starts a collector, an aggregator and an enforcer with a Redis.
func startWeir(b *testing.B, r *river) *running {
	folder := b.TempDir()
	redis := redistest.Start(b, "--appendonly", "yes")
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	write("rules.yaml", "rules: [{name: per-ip, key: ip, limits: [10/min, 100/hour, 1000/day], block: {for: 1000d}}]\n")
	write("weir.yaml", fmt.Sprintf(`
data: data
kafka: {brokers: [%s], hits: {partitions: %d}}
store: {redis: "redis://%s/0"}
collector: {listen: "", sources: [{name: lines, kafka: [%s], envelope: none, format: combined}]}
aggregator: {listen: ""}
enforcer: {listen: %q, admin: ""}
`, strings.Join(r.cluster.Addresses(), ", "), riverPartitions, redis.Addr, linesTopic, port.Reserve(b, "127.0.0.1")))
	c := &running{groups: "weir.", topics: []string{linesTopic, "weir.hits"}, out: "weir.blocklist", offender: blocked, redis: redis}
	for _, part := range []string{"collector", "aggregator", "enforcer"} {
		program := filepath.Join(folder, part)
		if said, err := exec.Command("go", "build", "-o", program, "weir/cmd/"+part).CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, said)
		}
		c.add(b, exec.Command(program, "--config", filepath.Join(folder, "weir.yaml")))
	}
	return c
}

// blocked is the client that an entry blocks.
func blocked(record kafka.Record) string {
	decoded, err := blocklist.DecodeRecord(record.Key, record.Value)
	if err != nil || decoded.Entry == nil {
		return ""
	}
	return decoded.Entry.Key
}
