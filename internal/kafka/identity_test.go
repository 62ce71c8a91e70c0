package kafka_test

import (
	"fmt"
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/internal/topic"
)

// A topic keeps its identity. Another topic, one of the same name that was created after a deletion, and one of another
// cluster have another.
func TestIdentity(t *testing.T) {
	seen := map[topic.Identity]bool{}
	onBoth(t, func(t *testing.T, config kafka.Config) {
		client := kafkatest.Client(t, config)
		ctx := within(t, 3*time.Minute)
		name := newTopic(t, client, 1)
		identify := func(topicName string) (id topic.Identity) {
			t.Helper()
			patiently(t, ctx, func() (err error) {
				id, err = kafkatest.Client(t, config).Identity(ctx, topicName)
				return err
			})
			return id
		}

		first := identify(name)
		if again := identify(name); again != first || !again.Is(first) || len(first) < len(name)+32 {
			t.Errorf("%q, and then %q", first, again)
		}
		if other := identify(newTopic(t, client, 1)); other.Is(first) {
			t.Errorf("two topics are %q and %q", first, other)
		}
		if err := client.DeleteTopic(ctx, name); err != nil {
			t.Fatal(err)
		}
		var second topic.Identity
		patiently(t, ctx, func() (err error) { // a broker may delete it only now, and says until then that it is there
			if err := client.EnsureTopics(ctx, topic.Topic{Name: name, Partitions: 1}); err != nil {
				return err
			}
			second, err = kafkatest.Client(t, config).Identity(ctx, name)
			if err == nil && second.Is(first) {
				err = fmt.Errorf("created again it is %q, as before %q", second, first)
			}
			return err
		})
		if seen[first] || seen[second] {
			t.Errorf("topics of two clusters have one identity: %q, %q", first, second)
		}
		seen[first], seen[second] = true, true
		if id, err := client.Identity(ctx, "missing"); err == nil {
			t.Errorf("a missing topic is %q", id)
		}
	})
}

// Reading any answer of a broker ends, and takes no more memory than the answer.
func FuzzReadIdentified(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 0, 0, 2, 'a', 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
	f.Add([]byte{0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(_ *testing.T, b []byte) { _ = kafka.ReadIdentified(b) })
}
