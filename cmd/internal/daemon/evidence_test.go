package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/cmd/internal/config"
	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/internal/topic"
	"weir/pkg/blocklist"
	"weir/pkg/collector/witness"
	"weir/pkg/enforcer/proof"
	"weir/pkg/evidence"
	"weir/pkg/request"
	"weir/pkg/rule"
	"weir/test/locked"
	"weir/test/real"
	"weir/test/wait"
)

const provenRules = "rules: [{name: per-ip, key: ip, limits: [3/min], evidence: 4}, {name: none, key: ip, limits: [3/min], evidence: 0}, {name: many, key: ip, limits: [3/min], evidence: 20}]\n"

// A provenBench is witnesses and stores over one log.
type provenBench struct {
	t      *testing.T
	log    topic.Log
	config *config.Config
	rules  *rule.Set
	events topic.Appender
}

func newProvenBench(t *testing.T, log topic.Log) *provenBench {
	t.Helper()
	b := &provenBench{t: t, log: log, config: config.Default()}
	b.config.Kafka.Events.Partitions, b.config.Kafka.Evidence.Partitions = 2, 2
	var err error
	if b.rules, _, err = rule.Parse("rules.yaml", []byte(provenRules)); err != nil {
		t.Fatal(err)
	}
	if err := log.EnsureTopics(t.Context(), EventsTopic(b.config)); err != nil {
		t.Fatal(err)
	}
	b.events = log.Appender(topic.AppenderConfig{Topic: EventsTopic(b.config).Name, Partitions: 2})
	t.Cleanup(func() { _ = b.events.Close(canceled()) })
	return b
}

// run runs something until the test ends, or until the returned function is called.
func (b *provenBench) run(run func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	b.t.Cleanup(stop)
	return stop
}

// collector runs a collector's evidence; it has counted requests of a key at these times.
func (b *provenBench) collector(name, rule, key string, at ...int64) (stop func()) {
	ring := evidence.NewRing(evidence.MinRing)
	buffer := ring.Buffer()
	for _, one := range at {
		buffer.Add(ring.Hash(ring.Rule(rule), []byte(key)), &request.Request{UnixMilli: one, IP: netip.MustParseAddr("192.0.2.9"), Method: "GET",
			Path: fmt.Sprintf("/%s/%d", name, one), Query: "password=secret", Status: 401})
	}
	ring.Put(buffer)
	return b.run(witness.New(b.witness(b.log, ring, name, nil)).Run)
}

func (b *provenBench) witness(log topic.Log, ring *evidence.Ring, name string, logger *slog.Logger) witness.Config {
	return witness.Config{Log: log, Events: EventsTopic(b.config).Name, Evidence: EvidenceTopic(b.config), Ring: ring,
		Rules: func() *rule.Set { return b.rules }, Collector: name, Logger: logger, Metrics: prometheus.NewRegistry()}
}

func (b *provenBench) store(bytes int) *proof.Store {
	s := proof.New(proof.Config{Log: b.log, Topic: EvidenceTopic(b.config), Bytes: bytes})
	b.run(s.Run)
	return s
}

// event publishes what happened to an entry of a rule and key.
func (b *provenBench) event(what, rule, key string, from int64) (id string) {
	b.t.Helper()
	e := &blocklist.Entry{ID: blocklist.ID(rule, key, from, 1), Rule: rule, Key: key, Fields: map[string]string{"ip": key}, From: from, Until: from + 60_000,
		Decided: from, Limit: "3/min", Count: 4, Level: 1, By: "weir"}
	line, err := blocklist.AppendEvent(nil, what, from, e)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.events.Send(b.t.Context(), topic.Message{Partition: int(from) % 2, Value: line}); err != nil {
		b.t.Fatal(err)
	}
	return e.ID
}

// paths are those of an entry's evidence, without the query.
func paths(s *proof.Store, id string) string {
	r, ok := s.Of(id)
	if !ok {
		return ""
	}
	var all []string
	for _, one := range r.Requests {
		all = append(all, strings.TrimSuffix(one.Path, "?password=***"))
	}
	return strings.Join(all, " ")
}

// Two collectors send what each has of a key, and an enforcer has the newest of both, up to the block. After its restart
// it reads them again.
func proveTogether(b *provenBench) {
	t := b.t
	const key = "203.0.113.7"
	b.collector("a", "per-ip", key, 1000, 3000, 5000, 9000) // the last one came within the block
	b.collector("b", "per-ip", key, 2000, 4000)
	b.collector("c", "none", key, 1000)
	first := b.store(1 << 20)
	b.collector("d", "many", key, 7000, 7000, 7000)
	b.collector("e", "many", key, 7000, 7000, 7000)
	many := b.event(blocklist.EventBlocked, "many", key, 7000)
	id := b.event(blocklist.EventBlocked, "per-ip", key, 5000)
	none := b.event(blocklist.EventBlocked, "none", key, 5001)
	const want = "/a/5000 /b/4000 /a/3000 /b/2000"
	wait.Until(t, "the evidence of both", func() bool { return paths(first, id) == want })
	if r, _ := first.Of(id); r.Counted != 4 || r.Key != key || r.Requests[0].Client != "192.0.2.9" || r.Requests[0].Status != 401 {
		t.Errorf("the record is %+v", r)
	}

	b.event(blocklist.EventExtended, "per-ip", key, 5000)
	wait.Until(t, "the request that extended it", func() bool { return paths(first, id) == "/a/9000 "+strings.TrimSuffix(want, " /b/2000") })
	wait.Until(t, "no more than the hits of the entry, though all six have its time", func() bool {
		r, _ := first.Of(many)
		return r != nil && len(r.Requests) == 4
	})
	second := b.store(1 << 20)
	wait.Until(t, "the evidence after a restart", func() bool { return paths(second, id) == paths(first, id) })
	if got := paths(first, none); got != "" {
		t.Errorf("a rule without evidence has %s", got)
	}
}

func TestEvidenceOfTwoCollectors(t *testing.T) {
	opened, err := OpenLocal(t.Context(), &config.Config{Data: t.TempDir()}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(opened.Close)
	proveTogether(newProvenBench(t, opened.Log))
}

func TestEvidenceOfTwoCollectorsOnKafka(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Real(t, kafkatest.Options{})
	proveTogether(newProvenBench(t, kafkatest.Client(t, kafka.Config{Brokers: cluster.Addresses(), Create: true})))
}

// The oldest entries lose their evidence first, and the store stays within its bytes.
func TestAStoreOfEvidenceIsBounded(t *testing.T) {
	s := proof.New(proof.Config{Bytes: 100_000})
	for i := range 1000 {
		r := evidence.Record{ID: fmt.Sprint(i), Rule: "r", Key: "k", Most: 5, Requests: []evidence.Request{{Path: strings.Repeat("p", 200)}}}
		line, err := r.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Add(line); err != nil {
			t.Fatal(err)
		}
	}
	kept := 0
	for i := range 1000 {
		if _, ok := s.Of(fmt.Sprint(i)); ok {
			kept++
		}
	}
	if _, last := s.Of("999"); !last || kept < 100 || kept > 200 {
		t.Errorf("%d are kept, the last one: %v", kept, last)
	}
	for _, line := range []string{"", "{}", `{"v":2,"id":"1"}`, `{"id":"1","requests":"x"}`} {
		if s.Add([]byte(line)) == nil {
			t.Errorf("%s is accepted", line)
		}
	}
}

// A collector whose Kafka user may not read the events, or not write evidence, logs it with the command that permits it,
// counts it, and sends evidence once it may.
func TestEvidenceWithoutRights(t *testing.T) {
	real.Long(t)
	t.Parallel()
	cluster := kafkatest.Real(t, kafkatest.Options{Secure: true, Guarded: true})
	b := newProvenBench(t, kafkatest.Client(t, kafka.Config{Brokers: cluster.Addresses(), Create: true}))
	if err := b.log.EnsureTopics(t.Context(), EvidenceTopic(b.config)); err != nil {
		t.Fatal(err)
	}
	events, proofs := EventsTopic(b.config).Name, EvidenceTopic(b.config).Name
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte(kafkatest.Password), 0o600); err != nil {
		t.Fatal(err)
	}
	limited := kafkatest.Client(t, kafka.Config{Topics: []string{events, proofs}, Brokers: cluster.Listener("SASLTLS"), TLS: &kafka.TLS{CA: cluster.Certificates.Authority},
		SASL: &kafka.SASL{Mechanism: "scram-sha-512", User: kafkatest.User, PasswordFile: password}})

	ring := evidence.NewRing(evidence.MinRing)
	buffer := ring.Buffer()
	buffer.Add(ring.Hash(ring.Rule("per-ip"), []byte("203.0.113.7")), &request.Request{UnixMilli: 1000, Path: "/one"})
	ring.Put(buffer)
	heard := &locked.Buffer{}
	c := b.witness(limited, ring, "a", slog.New(slog.NewTextHandler(heard, nil)))
	b.run(witness.New(c).Run)
	store := b.store(1 << 20)
	lost := func() float64 {
		n, err := testutil.GatherAndCount(c.Metrics.(prometheus.Gatherer), "weir_collector_evidence_lost_total")
		if err != nil {
			t.Error(err)
		}
		return float64(n)
	}
	wait.Until(t, "the log", func() bool { return strings.Contains(heard.String(), "counting goes on") })
	if lost() == 0 {
		t.Error("it is not counted")
	}
	for _, right := range [][2]string{{events, "Describe"}, {events, "Read"}, {proofs, "Describe"}, {proofs, "DescribeConfigs"}, {proofs, "Write"}} {
		cluster.Permit(t, right[0], right[1], true)
	}
	id := b.event(blocklist.EventBlocked, "per-ip", "203.0.113.7", 2000)
	for deadline := time.Now().Add(2 * time.Minute); paths(store, id) == ""; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("there is no evidence after the rights were given:", heard)
		}
	}
}
