package crash

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/internal/topic"
	"weir/test/real"
)

// admin is a client with the rights of a Kafka administrator.
func (r *river) admin() *kafkago.Client {
	return &kafkago.Client{Addr: kafkago.TCP(r.kafka.Addresses()...), Timeout: 10 * time.Second}
}

func (r *river) deleteTopic(name string) {
	r.t.Helper()
	answer, err := r.admin().DeleteTopics(r.t.Context(), &kafkago.DeleteTopicsRequest{Topics: []string{r.prefix + name}})
	if err = errors.Join(err, answer.Errors[r.prefix+name]); err != nil {
		r.t.Fatal(err)
	}
	r.eventually("the topic is gone", func() error {
		if _, err := r.client.Offsets(r.t.Context(), r.prefix+name); !errors.Is(err, topic.ErrNoTopic) {
			return fmt.Errorf("it can be asked: %w", err)
		}
		return nil
	})
}

// placeList makes the topic blocklist with one copy, on one of several brokers.
func (r *river) placeList(broker int) {
	r.t.Helper()
	name := r.prefix + "blocklist"
	answer, err := r.admin().CreateTopics(r.t.Context(), &kafkago.CreateTopicsRequest{Topics: []kafkago.TopicConfig{{
		Topic: name, NumPartitions: -1, ReplicationFactor: -1, ReplicaAssignments: []kafkago.ReplicaAssignment{{Partition: 0, Replicas: []int{broker}}},
		ConfigEntries: []kafkago.ConfigEntry{{ConfigName: "cleanup.policy", ConfigValue: "compact"}, {ConfigName: "min.insync.replicas", ConfigValue: "1"}},
	}}})
	if err = errors.Join(err, answer.Errors[name]); err != nil {
		r.t.Fatal(err)
	}
}

func (r *river) addPartitions(name string, to int) {
	r.t.Helper()
	answer, err := r.admin().CreatePartitions(r.t.Context(), &kafkago.CreatePartitionsRequest{
		Topics: []kafkago.TopicPartitionsConfig{{Name: r.prefix + name, Count: int32(to)}},
	})
	if err = errors.Join(err, answer.Errors[r.prefix+name]); err != nil {
		r.t.Fatal(err)
	}
}

// The topic hits is deleted and created again while its owner runs, and then while no aggregator runs: earlier counts
// stay, hits that are sent again are not counted again, and new hits count.
func TestHitsThatAreCreatedAgainAreCountedOn(t *testing.T) {
	real.Long(t)
	t.Parallel()
	begun := time.Now()
	r := newBranch(t, 2, limited)
	m := r.install()
	m.start()
	f := r.feed("feed")
	r.somebody(f)
	w := r.truth()
	r.recreateHits(f)
	f.hits(of("later"), every(time.Second, 3)...)
	f.hits(of("freed"), every(time.Second, 2)...)
	r.awaitListed(of("later"), true)
	r.drained()
	r.tell(w)
	m.kill()
	r.recreateHits(f)
	f.hits(of("latest"), every(time.Second, 6)...)
	m.start()
	r.awaitListed(of("latest"), true)
	r.drained()
	r.stop()
	r.tell(w)
	r.compareWindows(w)
	r.compareList(w, begun)
	r.keepWordsOfFailure()
}

// recreateHits deletes the topic and creates it again. Then new hits come, and all earlier ones again in another order:
// a log with the same record at the last offset could not be distinguished from the old one.
func (r *river) recreateHits(f *feed) {
	r.t.Helper()
	r.deleteTopic("hits")
	r.makeTopic("hits", r.partitions, "delete")
	before := slices.Clone(f.sent)
	slices.Reverse(before)
	for range 2 {
		f.crowd("limited", time.Now().Format("150405.000"), 100, time.Now())
	}
	f.produce(before...)
}

// The topic blocklist is deleted and created again: active entries are published again.
func TestABlocklistThatIsCreatedAgainIsFilledAgain(t *testing.T) {
	t.Parallel()
	r := newBranch(t, 2, limited)
	r.install().start()
	f := r.feed("feed")
	r.somebody(f)
	r.deleteTopic("blocklist")
	r.makeTopic("blocklist", 1, "compact")
	f.hits(of("latest"), every(time.Second, 6)...)
	r.awaitListed(of("latest"), true)
	r.awaitListed(of("early"), true)
	r.drained()
	r.stop()
	w := r.truth()
	r.compareWindows(w)
	r.compareNow(w, r.list(), time.Now().UnixMilli())
	r.keepWordsOfFailure()
}

// Another number of partitions would count keys in two places: the owner ends with an error, and no other aggregator
// starts until the number is the old one.
func TestAnotherNumberOfPartitionsStopsTheCounting(t *testing.T) {
	t.Parallel()
	r := newBranch(t, 2, limited)
	m := r.install()
	m.start()
	f := r.feed("feed")
	r.somebody(f)
	r.addPartitions("hits", 3)
	before := r.awaitRefusal(m)
	f.hits(of("later"), every(time.Second, 3)...)
	m.start()
	if after := r.awaitRefusal(m); !maps.Equal(before, after) {
		t.Error("something was written, though the number of partitions is another")
	}
	if e := r.list().now[of("later")]; e != nil {
		t.Errorf("counted on with another number of partitions: %+v", *e)
	}
}

// awaitRefusal waits until an aggregator has ended because of the changed number of partitions. It returns the records
// at that time.
func (r *river) awaitRefusal(m *member) map[string]string {
	r.t.Helper()
	r.eventually("it has ended", func() error {
		if !m.ended() {
			return errors.New("it runs")
		}
		return nil
	})
	m.stop()
	if said := m.said.Take(); !strings.Contains(said, "has 3 partitions and not 2") {
		r.t.Errorf("it does not say what is wrong: %s", said)
	}
	return r.written()
}
