package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/internal/store/redis/redistest"
	"weir/internal/topic"
	"weir/test/port"
)

// appendOnly makes Redis keep all writes, except those of the last second. Its replicas get them at once.
var appendOnly = []string{"--appendonly", "yes", "--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0", "--repl-diskless-sync-delay", "0"}

// A river is aggregators with the Kafka and the Redis that they share.
type river struct {
	t          testing.TB
	kafka      *kafkatest.Cluster
	redis      *redistest.Server
	place      string // the store's URL; empty if it is on disk
	client     topic.Log
	prefix     string // of topics
	partitions int
	rules      string
	hotKeys    int
	patience   time.Duration
	session    time.Duration // of members in their group
	guardSeed  uint64        // of the hashes of keys that guards count; of rules with a share
	members    []*member
	frozen     sync.WaitGroup // those that stand still
}

// A member is an aggregator.
type member struct {
	*installation
	address string // of its API
}

// newRiver has a Kafka and a Redis of its own.
func newRiver(t testing.TB, partitions int, rules string) *river {
	t.Helper()
	return riverOn(t, kafkatest.Real(t, kafkatest.Options{}), ownPrefix, partitions, rules)
}

// newBranch has topics and a Redis of its own; its Kafka is that of all tests.
func newBranch(t testing.TB, partitions int, rules string) *river {
	t.Helper()
	return riverOn(t, kafkatest.Shared(t), sharedPrefix(t), partitions, rules)
}

func riverOn(t testing.TB, cluster *kafkatest.Cluster, prefix string, partitions int, rules string) *river {
	t.Helper()
	r := &river{
		t: t, kafka: cluster, redis: redistest.Start(t, appendOnly...), prefix: prefix, partitions: partitions,
		rules: rules, hotKeys: 10_000, patience: 2 * time.Minute, session: 9 * time.Second,
	}
	r.place = inRedis(r.redis.Addr)
	r.client = kafkatest.Client(t, kafka.Config{Brokers: cluster.Addresses(), Create: true})
	r.makeTopic("hits", partitions, "delete")
	return r
}

// makeTopic makes a topic as a part of Weir does.
func (r *river) makeTopic(name string, partitions int, cleanup string) {
	r.t.Helper()
	r.eventually("the topic is made", func() error {
		return r.client.EnsureTopics(r.t.Context(), topic.Topic{Name: r.prefix + name, Partitions: partitions, Settings: map[string]string{"cleanup.policy": cleanup}})
	})
}

// install lays out one more aggregator.
func (r *river) install() *member {
	r.t.Helper()
	m := &member{&installation{t: r.t, part: "aggregator", folder: r.t.TempDir()}, port.Reserve(r.t, "127.0.0.1")}
	m.write("rules.yaml", r.rules)
	r.configure(m)
	r.t.Cleanup(m.kill)
	r.members = append(r.members, m)
	return m
}

func inRedis(address string) string { return "redis://" + address + "/0" }

// store is the store as in weir.yaml.
func (r *river) store() string {
	if r.place == "" {
		return "disk"
	}
	return fmt.Sprintf("{redis: %q}", r.place)
}

// configure writes a member's files. Aggregators count hits that are late by up to twice time.late, which is the
// truth's ten minutes.
func (r *river) configure(m *member) {
	r.t.Helper()
	m.write("weir.yaml", fmt.Sprintf(`
data: data
rules: rules.yaml
time: {late: 5m, ahead: 10s}
log: {level: info, format: text}
kafka: {brokers: [%s], prefix: %q, session: %s, hits: {partitions: %d}, events: {partitions: %d}}
store: %s
aggregator: {listen: %q, hot_keys: %d}
`, strings.Join(r.kafka.Addresses(), ", "), r.prefix, r.session, r.partitions, r.partitions, r.store(), m.address, r.hotKeys))
}

// eventually waits until is returns no error.
func (r *river) eventually(what string, is func() error) {
	r.t.Helper()
	var err error
	for end := time.Now().Add(r.patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err = is(); err == nil {
			return
		}
	}
	r.t.Fatalf("%v have passed, and still not: %s: %v\n%s", r.patience, what, err, r.lastWords())
}

// produce writes messages to weir.hits and waits until they are there.
func (r *river) produce(messages ...topic.Message) {
	r.t.Helper()
	producer := r.client.Appender(topic.AppenderConfig{Topic: r.prefix + "hits", Partitions: r.partitions})
	if err := producer.Send(r.t.Context(), messages...); err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	if err := producer.Close(ctx); err != nil {
		r.t.Fatal(err)
	}
}

// drained waits until the group has committed the end of each partition.
func (r *river) drained() {
	r.t.Helper()
	r.eventually("all is counted", func() error {
		spans, err := r.client.Offsets(r.t.Context(), r.prefix+"hits")
		if err != nil {
			return err
		}
		commits, err := r.client.Committed(r.t.Context(), r.prefix+"aggregator", r.prefix+"hits")
		if err != nil {
			return err
		}
		for p, span := range spans {
			if span.End > 0 && (p >= len(commits) || commits[p].Offset != span.End) {
				return fmt.Errorf("partition %d: the log ends at %d; committed %v", p, span.End, commits)
			}
		}
		return nil
	})
}

// stop lets all aggregators drain, and checks that none reported an internal error.
func (r *river) stop() {
	r.t.Helper()
	for _, m := range r.members {
		if m.process != nil {
			m.process.Process.Signal(syscall.SIGTERM)
		}
	}
	for _, m := range r.members {
		m.stop()
		if said := m.said.String(); strings.Contains(said, "panic:") || strings.Contains(said, "fatal error:") {
			r.t.Errorf("an aggregator fell: %s", tail(said, 5000))
		}
	}
}

func (r *river) lastWords() string {
	var b strings.Builder
	for i, m := range r.members {
		m.kill()
		fmt.Fprintf(&b, "aggregator %d:\n%s\n", i, tail(m.said.String(), 4000))
	}
	return b.String()
}

func tail(text string, most int) string { return text[max(0, len(text)-most):] }

// ended reports whether a process that should run has ended.
func (i *installation) ended() bool {
	if i.process == nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", i.process.Process.Pid))
	return err != nil || bytes.Contains(stat, []byte(") Z "))
}

// get asks a member's API.
func (m *member) get(path string, into any) error {
	ctx, cancel := context.WithTimeout(m.t.Context(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.address+path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, response.Status, body)
	}
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	return err
}

// appendFile is the file that a Redis appends to.
func (r *river) appendFile(redis *redistest.Server) string {
	r.t.Helper()
	files, err := filepath.Glob(filepath.Join(redis.Folder, "appendonlydir", "*.incr.aof"))
	if err != nil || len(files) != 1 {
		r.t.Fatalf("the append-only file: %v, %v", files, err)
	}
	return files[0]
}

// crashRedis ends Redis as a loss of power may with appendfsync everysec: a part of its last second is gone after the
// restart.
func (r *river) crashRedis(redis *redistest.Server, random *rand.Rand) {
	r.t.Helper()
	before, err := os.Stat(r.appendFile(redis))
	if err != nil {
		r.t.Fatal(err)
	}
	time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
	redis.Kill()
	after, err := os.Stat(r.appendFile(redis))
	if err != nil {
		r.t.Fatal(err)
	}
	if err := os.Truncate(r.appendFile(redis), before.Size()+random.Int64N(after.Size()-before.Size()+1)); err != nil {
		r.t.Fatal(err)
	}
	time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
	redis.Restart()
}

// restartKafka ends the broker, in one of two ways, and starts it again.
func (r *river) restartKafka(random *rand.Rand) {
	r.t.Helper()
	if random.IntN(2) == 0 {
		r.kafka.Kill(0)
	} else {
		r.kafka.StopBroker(0)
	}
	if err := r.kafka.StartBroker(0); err != nil {
		r.t.Fatal(err)
	}
	if err := r.kafka.Ready(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}
