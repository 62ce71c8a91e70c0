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
	"weir/internal/topic"
	"weir/pkg/hit"
)

const (
	riverPartitions = 8
	riverClients    = 100_000
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
	groups    string                                                   // the prefix of its groups' names
	topics    []string                                                 // that these read
	out       string                                                   // the topic of its verdicts
	offender  func(topic.Record) (client string, at int64, valid bool) // of a verdict, and the second of the break
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
	{"weir", weir(1)},
	{"weir-three-collectors", weir(3)},
	{"streams", streams("at_least_once")},
	{"streams-exactly-once", streams("exactly_once_v2")},
}

// A riverLog is the log of a site, and how many of its lines are read from the start, and again when all is warm.
type riverLog struct {
	name  string
	lines int
	open  func(b *testing.B, lines int) (line func() (text, client string, at time.Time))
}

var riverLogs = []riverLog{
	{"site", 4_000_000, func(_ *testing.B, lines int) func() (string, string, time.Time) {
		return newSite(riverClients, beginFor(lines)).line
	}},
	{"sparse", 4_800_000, func(_ *testing.B, lines int) func() (string, string, time.Time) {
		return newSparse(beginFor(lines).Add(-sparseRamp)).line
	}},
	{"real", 4_800_000, func(b *testing.B, lines int) func() (string, string, time.Time) {
		path := os.Getenv("WEIR_SITE_LOG")
		if path == "" {
			b.Skip("WEIR_SITE_LOG names no log")
		}
		return newReplay(b, path, lines).line
	}},
}

// BenchmarkRiver has each contender read the lines of the same log from a topic of a real Kafka, from the beginning.
// The lines have their client as their key, and a client's lines are in one partition; or they have no key, and
// alternate between the partitions.
//
// It measures twice: from the start of the contender's processes, in a Kafka that is new too; and when these are warm.
// In between they read a million lines at a time until Java's compilers have hardly any work, three million at most. It
// reports the processor time of a million lines (of the contender, of Kafka, of Redis, and of all together), the memory
// at the end, how many of a textbook's offenders were found, how many of them with the second in which the textbook
// sees their first break, and how much was still compiled during the measurement:
//
//	go test -run '^$' -bench River -benchtime 1x -timeout 90m ./test/bench
//
// -bench takes the part between two slashes as an expression that may match anywhere: keyed alone is /^keyed$/.
//
// With -short it reads a twentieth of the lines, to see whether all works. WEIR_SITE_LOG may name a real log of the
// combined format, packed with gzip, that is replayed too.
func BenchmarkRiver(b *testing.B) {
	for _, log := range riverLogs {
		for _, keyed := range []bool{false, true} {
			for _, c := range contenders {
				b.Run(log.name+map[bool]string{false: "/unkeyed/", true: "/keyed/"}[keyed]+c.name, func(b *testing.B) {
					r := newRiver(b, log, keyed)
					for b.Loop() {
						r.measure(b, c)
					}
				})
			}
		}
	}
}

// A river is a Kafka with a topic of lines.
type river struct {
	cluster  *kafkatest.Cluster
	client   *kafka.Client
	producer *kafka.Producer
	line     func() (text, client string, at time.Time) // the next one
	lines    int                                        // of a measurement
	keyed    bool
	truth    *textbook
	batches  [riverPartitions][]topic.Message // that are not full yet
	filled   int                              // lines so far
}

func newRiver(b *testing.B, log riverLog, keyed bool) *river {
	b.Helper()
	lines := log.lines
	if testing.Short() {
		lines /= 20
	}
	r := &river{lines: lines, keyed: keyed, truth: newTextbook(), line: log.open(b, 2*lines+(topicWarm-1)*warmLines)}
	r.cluster = kafkatest.Real(b, kafkatest.Options{Measured: true, MemoryMiB: 1024})
	r.client = kafkatest.Client(b, kafka.Config{Brokers: r.cluster.Addresses(), Create: true})
	topics := []topic.Topic{
		{Name: linesTopic, Partitions: riverPartitions, Settings: map[string]string{"cleanup.policy": "delete", "compression.type": "lz4"}},
		{Name: "offenders", Partitions: 1, Settings: map[string]string{"cleanup.policy": "delete", "retention.ms": "-1"}}, // its times are those of the lines
	}
	if err := r.client.EnsureTopics(b.Context(), topics...); err != nil {
		b.Fatal(err)
	}
	r.producer = r.client.OpenProducer(topic.AppenderConfig{Topic: linesTopic, Partitions: riverPartitions})
	b.Cleanup(func() { r.producer.Close(context.Background()) })
	return r
}

// fill writes lines, a thousand to a partition at a time, as shippers do.
func (r *river) fill(b *testing.B, lines int) {
	b.Helper()
	written := make(chan error, lines)
	for range lines {
		text, client, at := r.line()
		if at.After(time.Now()) {
			b.Fatal("a line is ahead of the clock: ", text)
		}
		r.truth.add(client, at)
		m := topic.Message{Partition: r.filled / 1000 % riverPartitions, Value: []byte(text), Done: func(_ int64, err error) { written <- err }}
		if r.keyed {
			m.Key, m.Partition = []byte(client), hit.Partition("", []byte(client), riverPartitions)
		}
		r.filled++
		if r.batches[m.Partition] = append(r.batches[m.Partition], m); len(r.batches[m.Partition]) == 1000 {
			r.send(b, m.Partition)
		}
	}

	for p := range r.batches {
		r.send(b, p)
	}
	for range lines {
		if err := <-written; err != nil {
			b.Fatal(err)
		}
	}
}

func (r *river) send(b *testing.B, partition int) {
	b.Helper()
	if err := r.producer.Send(b.Context(), r.batches[partition]...); err != nil {
		b.Fatal(err)
	}
	r.batches[partition] = nil
}

func (r *river) measure(b *testing.B, c contender) {
	r.fill(b, r.lines)
	kafkaBefore := r.cluster.CPU() - r.cluster.Compiling()
	started := c.start(b, r)
	defer started.stop()
	r.await(b, started)

	// The contender's start does not include the time in which Kafka compiles.
	start := costs{started.processorSeconds(b), (r.cluster.CPU() - r.cluster.Compiling() - kafkaBefore).Seconds(), started.redisSeconds(b)}
	start.report(b, r.lines, "start-")
	b.ReportMetric(float64(r.lines)/started.busy.took.Seconds(), "start-lines/s")

	if !testing.Short() {
		r.warm(b, started)
	}
	before := r.costs(b, started)
	r.fillAhead(b, started, r.lines)
	before.kafka = r.cluster.CPU().Seconds()
	compiledBefore := started.compiling(r.cluster)
	started.busy = busy{at: time.Now(), used: before.own}
	r.await(b, started)
	r.costs(b, started).minus(before).report(b, r.lines, "")
	b.ReportMetric(float64(r.lines)/started.busy.took.Seconds(), "lines/s")
	b.ReportMetric((started.compiling(r.cluster) - compiledBefore).Seconds(), "compiler-cpu-s")
	b.ReportMetric(started.memoryMiB(b), "MiB")
	b.ReportMetric(started.redisMiB(b), "redis-MiB")
	r.compare(b, started)
}

// costs are seconds of processors.
type costs struct{ own, kafka, redis float64 }

func (r *river) costs(b *testing.B, c *running) costs {
	b.Helper()
	return costs{c.processorSeconds(b), r.cluster.CPU().Seconds(), c.redisSeconds(b)}
}

func (c costs) minus(o costs) costs {
	return costs{c.own - o.own, c.kafka - o.kafka, c.redis - o.redis}
}

func (c costs) report(b *testing.B, lines int, when string) {
	each := 1e6 / float64(lines)
	b.ReportMetric(c.own*each, when+"cpu-s/million")
	b.ReportMetric(c.kafka*each, when+"kafka-cpu-s/million")
	b.ReportMetric(c.redis*each, when+"redis-cpu-s/million")
	b.ReportMetric((c.own+c.kafka+c.redis)*each, when+"all-cpu-s/million")
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
	for _, name := range c.topics {
		spans, err := r.client.Offsets(b.Context(), name)
		if err != nil {
			return false
		}
		for partition, span := range spans {
			reached := int64(-1)
			for _, g := range groups {
				if commit, ok := g.Commits[name][partition]; ok {
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

// compare reports how many of the truth's offenders a contender has found, how many others, and how many of those that
// it found with the right second.
func (r *river) compare(b *testing.B, c *running) {
	b.Helper()
	found, timed, wrong := 0, 0, 0
	for client, at := range r.offenders(b, c) {
		switch r.truth.offenders[client] {
		case 0:
			wrong++
		case at:
			timed++
			found++
		default:
			b.Logf("%s: %d is not its first break, which is of %d", client, at, r.truth.offenders[client])
			found++
		}
	}
	b.ReportMetric(100*float64(found)/float64(len(r.truth.offenders)), "%found")
	b.ReportMetric(100*float64(timed)/float64(len(r.truth.offenders)), "%timed")
	b.ReportMetric(float64(wrong), "wrong")
	b.ReportMetric(float64(len(r.truth.offenders)), "offenders")
}

// offenders are the clients of a contender's verdicts, and the second of each one's break as of the last verdict.
func (r *river) offenders(b *testing.B, c *running) map[string]int64 {
	b.Helper()
	span, err := r.client.PartitionSpan(b.Context(), c.out, 0)
	if err != nil {
		b.Fatal(err)
	}
	breaks := map[string]int64{}
	for reader := r.client.NewReader(c.out, 0, span.Start); reader.Next() < span.End; {
		records, err := reader.Fetch(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		for _, record := range records {
			if client, at, valid := c.offender(record); valid {
				breaks[client] = at
			}
		}
	}
	return breaks
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
	if len(c.processes) == 0 {
		c.busy.at = time.Now()
	}
	p := &process{command, log.Name(), make(chan struct{})}
	c.processes = append(c.processes, p)
	go func() {
		command.Wait()
		close(p.ended)
	}()
}
