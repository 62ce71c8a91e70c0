package topictest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"weir/internal/topic"
)

func (b *bench) testTopics() {
	name := b.topic("hits", 2, "cleanup.policy=delete", "retention.ms=3600000")
	of := topic.Topic{Name: name, Partitions: 2, Settings: map[string]string{"cleanup.policy": "delete", "retention.ms": "3600000"}}
	if err := b.log.EnsureTopics(b.Context(), of); err != nil {
		b.Errorf("again: %v", err)
	}
	if settings, err := b.log.TopicSettings(b.Context(), name); err != nil || settings["cleanup.policy"] != "delete" || settings["retention.ms"] != "3600000" {
		b.Errorf("%v, %v", settings, err)
	}
	of.Partitions = 3
	if err := b.log.EnsureTopics(b.Context(), of); !errors.Is(err, topic.ErrPartitions) || !errors.Is(err, topic.ErrPermanent) {
		b.Errorf("other partitions: %v", err)
	}
	if count, err := b.log.Partitions(b.Context(), name); err != nil || count != 2 {
		b.Errorf("%d partitions, %v", count, err)
	}
	if _, err := b.log.Partitions(b.Context(), b.prefix+"none"); !errors.Is(err, topic.ErrNoTopic) {
		b.Errorf("a topic that does not exist: %v", err)
	}
	if _, err := b.log.Offsets(b.Context(), b.prefix+"none"); !errors.Is(err, topic.ErrNoTopic) {
		b.Errorf("a topic that does not exist: %v", err)
	}
	b.until("the topic is listed", func() bool {
		cluster, err := b.log.Cluster(b.Context())
		return err == nil && strings.Contains(strings.Join(cluster.Topics, " ")+" ", name+" ")
	})
}

// A topic keeps its identity, and no two topics have the same.
func (b *bench) testIdentities() {
	first, second := b.topic("hits", 2), b.topic("events", 1)
	identify := func(name string, partition int) (id topic.Identity) {
		b.Helper()
		b.until("a topic is identified", func() (ok bool) {
			var err error
			id, err = b.log.Reader(name, partition, 0, 0).Identity(b.Context())
			return err == nil
		})
		return id
	}
	of := identify(first, 0)
	if of == "" || identify(first, 0) != of || identify(first, 1) != of {
		b.Errorf("a topic is %q and then %q", of, identify(first, 1))
	}
	if other := identify(second, 0); other.Is(of) {
		b.Errorf("two topics are %q and %q", of, other)
	}
	if id, err := b.log.Reader(b.prefix+"none", 0, 0, 0).Identity(b.Context()); err == nil {
		b.Errorf("a topic that does not exist is %q", id)
	}
}

// testCompaction checks that the last record of each key stays, whatever is deleted.
func (b *bench) testCompaction() {
	name := b.topic("blocklist", 1, "cleanup.policy=compact", "segment.ms=1000", "min.cleanable.dirty.ratio=0.001", "max.compaction.lag.ms=1000", "delete.retention.ms=100")
	a := b.appender(name, 1)
	want := map[string]string{}
	sent := int64(0)
	round := func() {
		for range 500 {
			key, value := fmt.Sprint("key", rand.IntN(20)), fmt.Sprint(rand.Uint64())
			m := topic.Message{Key: []byte(key), Value: []byte(value)}
			want[key] = value
			if rand.IntN(10) == 0 {
				m.Value = nil
				delete(want, key)
			}
			sent++
			if err := a.Send(b.Context(), m); err != nil {
				b.Fatal(err)
			}
		}
		b.until("all are written", func() bool { return a.Held() == 0 })
	}

	for range 3 {
		round()
		time.Sleep(1200 * time.Millisecond) // a segment's age
	}
	round()
	b.until("the log is compacted", func() bool { return len(b.read(b.log.Reader(name, 0, 0, 0), sent)) < int(sent)/2 })
	found := map[string]string{}
	before := int64(-1)
	for _, r := range b.read(b.log.Reader(name, 0, 0, 1000), sent) {
		if r.Offset <= before {
			b.Fatalf("%d after %d", r.Offset, before)
		}
		before = r.Offset
		found[string(r.Key)] = string(r.Value)
		if r.Value == nil {
			delete(found, string(r.Key))
		}
	}
	if fmt.Sprint(found) != fmt.Sprint(want) {
		b.Errorf("the log says %v, want %v", found, want)
	}
	if err := b.log.EnsureTopics(b.Context(), topic.Topic{Name: name, Partitions: 1, Settings: map[string]string{"cleanup.policy": "delete"}}); !errors.Is(err, topic.ErrSettings) {
		b.Errorf("another policy: %v", err)
	}
}
