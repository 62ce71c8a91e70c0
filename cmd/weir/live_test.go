package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"weir/internal/kafka"
	"weir/internal/kafka/embedded"
	"weir/pkg/blocklist"
	"weir/pkg/hit"
)

// A liveBroker is an embedded broker that a test runs next to weir, as weir run does.
type liveBroker struct {
	*embedded.Broker
	*kafka.Client
}

func startBroker(folder, listen string, topics ...string) (*liveBroker, error) {
	b, err := embedded.Open(embedded.Config{Folder: folder, Listen: listen})
	if err != nil {
		return nil, err
	}
	client, err := kafka.Open(kafka.Config{Brokers: []string{kafka.Embedded}, Dial: b.Dial, Create: true, Topics: topics})
	if err != nil {
		b.Close()
		return nil, err
	}
	return &liveBroker{b, client}, nil
}

func (b *liveBroker) Close() {
	b.Client.Close()
	b.Broker.Close()
}

// A testLog is a topic that tests write to.
type testLog struct {
	client     *kafka.Client
	topic      string
	partitions int
}

// makeLog makes the topic if it does not exist.
func makeLog(ctx context.Context, client *kafka.Client, topic string, partitions int) (*testLog, error) {
	return &testLog{client, topic, partitions}, client.EnsureTopics(ctx, kafka.Topic{Name: topic, Partitions: partitions})
}

// put writes records of one partition.
func (l *testLog) put(ctx context.Context, messages ...kafka.Message) error {
	producer := l.client.OpenProducer(kafka.ProducerConfig{Topic: l.topic, Partitions: l.partitions})
	if err := producer.Send(ctx, messages...); err != nil {
		return err
	}
	return producer.Close(ctx)
}

const eight = 1772524800_000 // 2026-03-03T08:00:00Z

// sampleBatch returns a batch of hits as a collector sends it.
func sampleBatch(from int64) []byte {
	w := hit.NewWriter()
	w.Reset([]string{"per-ip", "login"})
	w.Add(0, []byte("203.0.113.7"), eight, 1)
	w.Add(1, []byte("alice /login"), eight+123, 3)
	w.Unblock(0, []byte("203.0.113.7"), eight+123, "order-1")
	b, err := w.Append(nil, hit.Header{Source: "access.log/5f0c", From: from, To: from + 1000, Clock: eight + 200, Fingerprint: "f00d"})
	if err != nil {
		panic(err)
	}
	return b
}

// sampleEntries are messages of a blocklist.
func sampleEntries() []kafka.Message {
	one := &blocklist.Entry{ID: blocklist.ID("per-ip", "203.0.113.7", eight, 1), Rule: "per-ip", Key: "203.0.113.7",
		Fields: map[string]string{"ip": "203.0.113.7"}, From: eight, Until: eight + 600_000, Decided: eight + 4,
		Limit: "10/min", Count: 11, Level: 1, By: "weir"}
	ended := *one
	ended.Ended, ended.Mode, ended.Until = eight+1000, blocklist.Shadow, blocklist.Never
	ended.Source, ended.By, ended.Why, ended.Limit = blocklist.Manual, "alice", "a <mistake>", ""
	var messages []kafka.Message
	for _, e := range []*blocklist.Entry{one, &ended} {
		value, err := e.Append(nil)
		if err != nil {
			panic(err)
		}
		messages = append(messages, kafka.Message{Key: blocklist.RecordKey(e.Rule, e.Key), Value: value})
	}
	order := &blocklist.Order{ID: "four", Kind: blocklist.OrderBlock, Scope: "user", Value: "eve", From: eight, Until: blocklist.Never, Ended: eight + 1000, By: "bob", Why: "a try"}
	mark := &blocklist.Mark{List: blocklist.ListID{Name: "tests", Epoch: 1}, Partition: 1, Partitions: 2, Generation: 3, Offset: 41, Reached: eight, At: eight}
	for _, record := range []interface {
		RecordKey() []byte
		Append([]byte) ([]byte, error)
	}{order, mark} {
		value, err := record.Append(nil)
		if err != nil {
			panic(err)
		}
		messages = append(messages, kafka.Message{Key: record.RecordKey(), Value: value})
	}
	return append(messages, kafka.Message{Key: blocklist.RecordKey("per-ip", "203.0.113.7")})
}

// broker is for scripts: `broker data` runs one on data as weir run does, `broker data quiet` one that does not listen,
// `broker stop` ends it. Its topics hold samples.
func runBroker(ts *testscript.TestScript, _ bool, args []string) {
	live := liveOf(ts)
	if live.stopBroker(); args[0] == "stop" {
		return
	}
	folder := filepath.Join(ts.MkAbs(args[0]), "broker")
	listen := filepath.Join(folder, "kafka.sock")
	if len(args) > 1 {
		listen = ""
	}
	b, err := startBroker(folder, listen)
	ts.Check(err)
	live.broker = b
	ts.Defer(live.stopBroker)
	ts.Check(fillSamples(b.Client))
}

// fillSamples makes the topics and fills them, unless they exist.
func fillSamples(client *kafka.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	hits, err := makeLog(ctx, client, "weir.hits", 2)
	if err != nil {
		return err
	}
	if spans, err := client.Offsets(ctx, "weir.hits"); err != nil || spans[0].End > 0 {
		return err
	}
	damaged := sampleBatch(2000)
	damaged[20]++
	err = hits.put(ctx, kafka.Message{Value: sampleBatch(0)}, kafka.Message{Value: damaged}, kafka.Message{Value: sampleBatch(1000)},
		kafka.Message{Partition: 1, Value: sampleBatch(2000)})
	if err != nil {
		return err
	}
	if _, err := makeLog(ctx, client, "logs", 2); err != nil {
		return err
	}
	list, err := makeLog(ctx, client, "weir.blocklist", 1)
	if err != nil {
		return err
	}
	if err := list.put(ctx, sampleEntries()...); err != nil {
		return err
	}
	events, err := makeLog(ctx, client, "weir.events", 4)
	if err != nil {
		return err
	}
	return events.put(ctx, sampleEvents()...)
}

// sampleEvents are messages of the topic events, each in the partition of its rule and key.
func sampleEvents() (messages []kafka.Message) {
	verdict := blocklist.Entry{ID: "one", Rule: "per-ip", Key: "2001:db8::/64", Fields: map[string]string{"ip": "2001:db8::/64"}, From: eight,
		Until: eight + 600_000, Decided: eight + 4, Limit: "10/min", Count: 11, Level: 1, By: "weir"}
	other := verdict
	other.Key, other.Fields = "203.0.113.7", map[string]string{"ip": "203.0.113.7"}
	longer := verdict
	longer.Until += 600_000
	pardon := &blocklist.Order{ID: "two", Kind: blocklist.OrderPardon, Rule: "per-ip", Key: verdict.Key, Pardons: "one", From: eight + 60_000,
		Until: longer.Until, By: "alice", Why: "our own <backup>"}
	lifted := longer
	lifted.Ended = eight + 60_000
	allow := &blocklist.Order{ID: "three", Kind: blocklist.OrderAllow, Scope: "ip", Value: "2001:db8::5", From: eight + 61_000, Until: eight + 3_661_000, By: "alice", Why: "until it is mended"}
	block := &blocklist.Order{ID: "four", Kind: blocklist.OrderBlock, Scope: "user", Value: "alice", From: eight, Until: blocklist.Never, By: "bob", Why: "a try"}
	end := *block
	end.ID, end.Ended, end.Why = "five", eight+1000, "it was one"
	put := func(event string, at int64, e *blocklist.Entry) {
		line, err := blocklist.AppendEvent(nil, event, at, e)
		if err != nil {
			panic(err)
		}
		messages = append(messages, kafka.Message{Partition: hit.Partition(e.Rule, []byte(e.Key), 4), Value: line})
	}
	put(blocklist.EventBlocked, eight+4, &verdict)
	put(blocklist.EventBlocked, eight+4, &other)
	put(blocklist.EventExtended, eight+30_000, &longer)
	put(blocklist.EventOrdered, eight+61_000, allow.Entry())
	put(blocklist.EventOrdered, eight+60_000, pardon.Entry())
	put(blocklist.EventLifted, eight+60_005, &lifted)
	put(blocklist.EventOrdered, eight, block.Entry())
	put(blocklist.EventLifted, eight+1000, end.Entry())
	return append(messages, kafka.Message{Value: []byte("{}")})
}

// A liveScript contains the parts that a script runs next to weir. Scripts run in parallel, each with its own.
type liveScript struct {
	broker    *liveBroker
	collector *stubCollector
	enforcer  *liveEnforcer
}

func liveOf(ts *testscript.TestScript) *liveScript { return ts.Value(liveScript{}).(*liveScript) }

func (l *liveScript) stopBroker() {
	if l.broker != nil {
		l.broker.Close()
		l.broker = nil
	}
}

// liveFolder returns a new folder for an embedded broker. A socket's path may have about a hundred bytes, and that of
// t.TempDir may be longer.
func liveFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "weir")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	return folder
}

// A lockedBuffer may be written to and read by several goroutines.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
