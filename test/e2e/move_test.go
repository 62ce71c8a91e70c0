package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/internal/store/redis/redistest"
	"weir/test/real"
	"weir/test/wait"
)

const moveRules = "rules: [{name: per-ip, key: ip, limits: [15/min], block: {for: 1h}}]\n"

// From topics in the store to Kafka, to topics with another prefix, to another Kafka, and back: blocks and manual entries
// of before stay active, the blocks of hits that a new topic has before anything is counted come too, an unblocked client
// stays unblocked, and the list is complete each time.
func TestAMoveToOtherBrokersLosesNoBlock(t *testing.T) {
	real.Long(t)
	f := newFleet(t, moveRules, "")
	text, err := os.ReadFile(f.path("weir.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	m := &move{fleet: f, config: string(text), first: 10, blocked: map[string]bool{}}
	const unblocked, byHand = "203.0.113.5", "198.51.100.7"

	m.start(build(t, "weir"), "run")
	m.ready()
	f.tool("block", byHand, "--why", "a test")
	m.blocked[byHand] = true
	f.log(unblocked, 16, time.Now())
	wait.Until(t, "refused", func() bool { return f.checks(unblocked) == http.StatusTooManyRequests })
	f.tool("unblock", unblocked, "--why", "a test")
	m.free = unblocked
	m.abuse()
	m.settled("without Kafka")

	one, other := kafkatest.Shared(t), kafkatest.Real(t, kafkatest.Options{})
	m.to(one, prefix(t))
	m.to(one, prefix(t))
	m.to(other, "weir.")
	m.stop()
	f.write("weir.yaml", m.config)
	m.run("back without Kafka")
}

// A move is a folder whose brokers change.
type move struct {
	*fleet
	config  string // without Kafka
	first   int    // the last byte of the next address
	blocked map[string]bool
	free    string
}

// to moves to topics of a prefix in a Kafka. The hits of six clients are in them before anything is counted.
func (m *move) to(cluster *kafkatest.Cluster, own string) {
	m.t.Helper()
	m.configure(cluster, own)
	collector := m.start(build(m.t, "collector"))
	m.abuse()
	client := kafkatest.Client(m.t, kafka.Config{Brokers: cluster.Addresses()})
	wait.Until(m.t, "hits are in Kafka", func() bool {
		spans, err := client.Offsets(context.Background(), own+"hits")
		return err == nil && spans[0].End+spans[1].End > 0
	})
	collector.end(m.t, syscall.SIGTERM)
	m.run("on " + own)
}

// configure stops weir, and writes a configuration with a Kafka.
func (m *move) configure(cluster *kafkatest.Cluster, own string) {
	m.t.Helper()
	m.stop()
	m.write("weir.yaml", m.config+fmt.Sprintf("kafka: {brokers: [%s], prefix: %s, hits: {partitions: 2}, events: {partitions: 1}}\n",
		strings.Join(cluster.Addresses(), ", "), own))
}

// run runs weir, and has six further clients break the limit.
func (m *move) run(when string) {
	m.t.Helper()
	m.start(build(m.t, "weir"), "run")
	m.abuse()
	m.ready()
	m.settled(when)
}

// abuse has six further clients break the limit.
func (m *move) abuse() {
	m.t.Helper()
	for range 6 {
		client := fmt.Sprintf("203.0.113.%d", m.first)
		m.first++
		m.log(client, 16, time.Now())
		m.blocked[client] = true
	}
}

// settled waits until all offenders are refused and the list is complete: then they still are.
func (m *move) settled(when string) {
	m.t.Helper()
	wait.Until(m.t, "all are refused "+when, func() bool { return len(m.passing()) == 0 })
	m.tool("status", "--wait", "1m")
	if passing := m.passing(); len(passing) > 0 {
		m.t.Errorf("%s, with a complete list: %v pass", when, passing)
	}
	if got := m.checks(m.free); got != http.StatusOK {
		m.t.Errorf("%s: %s was unblocked and gets %d", when, m.free, got)
	}
}

// passing are the offenders that are let through.
func (m *move) passing() (clients []string) {
	for client := range m.blocked {
		if m.checks(client) != http.StatusTooManyRequests {
			clients = append(clients, client)
		}
	}
	return clients
}

// First the brokers and then the store: all stays, and the list is complete each time. Both at once: all stays too, with
// what is new, while the old list's blocks last.
func TestAMoveToOtherBrokersAndAnotherStore(t *testing.T) {
	real.Long(t)
	f := newFleet(t, moveRules, "")
	text, err := os.ReadFile(f.path("weir.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	cluster, redis, other := kafkatest.Shared(t), redistest.Start(t), redistest.Start(t)
	m := &move{fleet: f, config: string(text), first: 10, blocked: map[string]bool{}, free: "203.0.113.5"}
	m.run("without Kafka")
	const byHand = "198.51.100.7"
	f.tool("block", byHand, "--why", "a test")
	m.blocked[byHand] = true

	own := prefix(t)
	m.to(cluster, own)
	m.config += fmt.Sprintf("store: {redis: \"redis://%s/0\"}\n", redis.Addr)
	m.to(cluster, own)

	m.config = string(text) + fmt.Sprintf("store: {redis: \"redis://%s/0\"}\n", other.Addr)
	m.configure(cluster, prefix(t))
	m.start(build(t, "weir"), "run")
	m.abuse()
	wait.Until(t, "all are refused", func() bool { return len(m.passing()) == 0 })
	m.staysBehind()
	if passing := m.passing(); len(passing) > 0 {
		t.Errorf("%v pass", passing)
	}
}

// staysBehind waits until the enforcer keeps the old list's blocks next to a new list without them.
func (m *move) staysBehind() {
	m.t.Helper()
	wait.Until(m.t, "the status has the reason", func() bool {
		answer, err := http.Get("http://" + m.admins["enforcer"] + "/status")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		said, err := io.ReadAll(answer.Body)
		return err == nil && strings.Contains(string(said), "blocks stay active until they end")
	})
}

// The folder of the store, which has the topics too, is deleted under a running process: blocks and manual entries stay.
func TestAStoreThatIsDeletedLosesNoBlock(t *testing.T) {
	f := newFleet(t, moveRules, "")
	m := &move{fleet: f, first: 10, blocked: map[string]bool{}, free: "203.0.113.5"}
	m.run("before")
	const byHand = "198.51.100.7"
	f.tool("block", byHand, "--why", "a test")
	m.blocked[byHand] = true
	for range 2 {
		if err := os.RemoveAll(filepath.Join(f.folder, "data", "store")); err != nil {
			t.Fatal(err)
		}
		m.staysBehind()
		m.abuse()
		wait.Until(t, "all are refused", func() bool { return len(m.passing()) == 0 })
	}
}
