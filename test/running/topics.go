// Package running runs, for tests of the tool, parts that the tool asks: topics with sample records, an enforcer
// over a list in memory, and a stub of a collector.
package running

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir/internal/database"
	"weir/internal/store/disk"
	"weir/internal/topic"
	"weir/internal/topic/local"
	"weir/pkg/blocklist"
	"weir/pkg/hit"
)

// Topics are those that a test writes next to weir, as weir run does.
type Topics struct {
	*local.Log
	database *database.DB
	server   *local.Server
}

// StartTopics opens the topics of a folder of data, and lets weir read them when it is served.
func StartTopics(data string, served bool) (*Topics, error) {
	ctx := context.Background()
	db, err := database.Open(ctx, database.Options{Folder: filepath.Join(data, "store"), Check: disk.Check, SplitAt: local.SplitAt})
	if err != nil {
		return nil, err
	}
	t := &Topics{database: db}
	if t.Log, err = local.Open(ctx, local.Options{Database: db}); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if served {
		t.server, err = t.Serve(filepath.Join(data, "topics.sock"))
	}
	return t, err
}

// Close ends the topics.
func (t *Topics) Close() {
	if t.server != nil {
		t.server.Close()
	}
	t.Log.Close()
	_ = t.database.Close()
}

// A Topic is a topic that tests write to.
type Topic struct {
	Client     topic.Log
	Name       string
	Partitions int
}

// MakeTopic makes the topic if it does not exist.
func MakeTopic(ctx context.Context, client topic.Log, name string, partitions int) (*Topic, error) {
	return &Topic{client, name, partitions}, client.EnsureTopics(ctx, topic.Topic{Name: name, Partitions: partitions})
}

// Put writes records of one partition.
func (l *Topic) Put(ctx context.Context, messages ...topic.Message) error {
	producer := l.Client.Appender(topic.AppenderConfig{Topic: l.Name, Partitions: l.Partitions})
	if err := producer.Send(ctx, messages...); err != nil {
		return err
	}
	return producer.Close(ctx)
}

// Eight is 2026-03-03T08:00:00Z in Unix milliseconds.
const Eight = 1772524800_000

// SampleBatch returns a batch of hits as a collector sends it.
func SampleBatch(from int64) []byte {
	w := hit.NewWriter()
	w.Reset([]string{"per-ip", "login"})
	w.Add(0, []byte("203.0.113.7"), Eight, 1)
	w.Add(1, []byte("alice /login"), Eight+123, 3)
	w.Unblock(0, []byte("203.0.113.7"), Eight+123, "order-1")
	b, err := w.Append(nil, hit.Header{Source: "access.log/5f0c", From: from, To: from + 1000, Clock: Eight + 200, Fingerprint: "f00d"})
	if err != nil {
		panic(err)
	}
	return b
}

// sampleEntries are messages of a blocklist.
func sampleEntries() []topic.Message {
	one := &blocklist.Entry{ID: blocklist.ID("per-ip", "203.0.113.7", Eight, 1), Rule: "per-ip", Key: "203.0.113.7",
		Fields: map[string]string{"ip": "203.0.113.7"}, From: Eight, Until: Eight + 600_000, Decided: Eight + 4,
		Limit: "10/min", Count: 11, Level: 1, By: "weir"}
	ended := *one
	ended.Ended, ended.Mode, ended.Until = Eight+1000, blocklist.Shadow, blocklist.Never
	ended.Source, ended.By, ended.Why, ended.Limit = blocklist.Manual, "alice", "a <mistake>", ""
	var messages []topic.Message
	for _, e := range []*blocklist.Entry{one, &ended} {
		value, err := e.Append(nil)
		if err != nil {
			panic(err)
		}
		messages = append(messages, topic.Message{Key: blocklist.RecordKey(e.Rule, e.Key), Value: value})
	}
	order := &blocklist.Order{ID: "four", Kind: blocklist.OrderBlock, Scope: "user", Value: "eve", From: Eight, Until: blocklist.Never, Ended: Eight + 1000, By: "bob", Why: "a try"}
	mark := &blocklist.Mark{List: blocklist.ListID{Name: "tests", Epoch: 1}, Partition: 1, Partitions: 2, Generation: 3, Offset: 41, Reached: Eight, At: Eight}
	for _, record := range []interface {
		RecordKey() []byte
		Append([]byte) ([]byte, error)
	}{order, mark} {
		value, err := record.Append(nil)
		if err != nil {
			panic(err)
		}
		messages = append(messages, topic.Message{Key: record.RecordKey(), Value: value})
	}
	return append(messages, topic.Message{Key: blocklist.RecordKey("per-ip", "203.0.113.7")})
}

// FillSamples makes the topics and fills them, unless they exist.
func FillSamples(client topic.Log) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	hits, err := MakeTopic(ctx, client, "weir.hits", 2)
	if err != nil {
		return err
	}
	if spans, err := client.Offsets(ctx, "weir.hits"); err != nil || spans[0].End > 0 {
		return err
	}
	damaged := SampleBatch(2000)
	damaged[20]++
	err = hits.Put(ctx, topic.Message{Value: SampleBatch(0)}, topic.Message{Value: damaged}, topic.Message{Value: SampleBatch(1000)},
		topic.Message{Partition: 1, Value: SampleBatch(2000)})
	if err != nil {
		return err
	}
	if _, err := MakeTopic(ctx, client, "logs", 2); err != nil {
		return err
	}
	list, err := MakeTopic(ctx, client, "weir.blocklist", 1)
	if err != nil {
		return err
	}
	if err := list.Put(ctx, sampleEntries()...); err != nil {
		return err
	}
	events, err := MakeTopic(ctx, client, "weir.events", 4)
	if err != nil {
		return err
	}
	return events.Put(ctx, sampleEvents()...)
}

// sampleEvents are messages of the topic events, each in the partition of its rule and key.
func sampleEvents() (messages []topic.Message) {
	verdict := blocklist.Entry{ID: "one", Rule: "per-ip", Key: "2001:db8::/64", Fields: map[string]string{"ip": "2001:db8::/64"}, From: Eight,
		Until: Eight + 600_000, Decided: Eight + 4, Limit: "10/min", Count: 11, Level: 1, By: "weir"}
	other := verdict
	other.Key, other.Fields = "203.0.113.7", map[string]string{"ip": "203.0.113.7"}
	longer := verdict
	longer.Until += 600_000
	pardon := &blocklist.Order{ID: "two", Kind: blocklist.OrderPardon, Rule: "per-ip", Key: verdict.Key, Pardons: "one", From: Eight + 60_000,
		Until: longer.Until, By: "alice", Why: "our own <backup>"}
	lifted := longer
	lifted.Ended = Eight + 60_000
	allow := &blocklist.Order{ID: "three", Kind: blocklist.OrderAllow, Scope: "ip", Value: "2001:db8::5", From: Eight + 61_000, Until: Eight + 3_661_000, By: "alice", Why: "until it is mended"}
	block := &blocklist.Order{ID: "four", Kind: blocklist.OrderBlock, Scope: "user", Value: "alice", From: Eight, Until: blocklist.Never, By: "bob", Why: "a try"}
	end := *block
	end.ID, end.Ended, end.Why = "five", Eight+1000, "it was one"
	put := func(event string, at int64, e *blocklist.Entry) {
		line, err := blocklist.AppendEvent(nil, event, at, e)
		if err != nil {
			panic(err)
		}
		messages = append(messages, topic.Message{Partition: hit.Partition(e.Rule, []byte(e.Key), 4), Value: line})
	}
	put(blocklist.EventBlocked, Eight+4, &verdict)
	put(blocklist.EventBlocked, Eight+4, &other)
	put(blocklist.EventExtended, Eight+30_000, &longer)
	put(blocklist.EventOrdered, Eight+61_000, allow.Entry())
	put(blocklist.EventOrdered, Eight+60_000, pardon.Entry())
	put(blocklist.EventLifted, Eight+60_005, &lifted)
	put(blocklist.EventOrdered, Eight, block.Entry())
	put(blocklist.EventLifted, Eight+1000, end.Entry())
	return append(messages, topic.Message{Value: []byte("{}")})
}

// Folder returns a new folder for topics. A socket's path may have about a hundred bytes, and that of
// t.TempDir may be longer.
func Folder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "weir")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	return folder
}
