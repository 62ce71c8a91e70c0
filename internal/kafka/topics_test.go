package kafka_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/internal/topic"
)

func TestEnsureTopics(t *testing.T) {
	onBoth(t, func(t *testing.T, config kafka.Config) {
		var log lines
		config.Logger = slog.New(slog.NewTextHandler(&log, nil))
		client := kafkatest.Client(t, config)
		ctx := within(t, time.Minute)
		hits := topic.Topic{Name: fmt.Sprintf("hits.%d", topics.Add(1)), Partitions: 4,
			Settings: map[string]string{"cleanup.policy": "delete", "retention.ms": "172800000"}}
		for range 2 { // created, and found
			if err := client.EnsureTopics(ctx, hits); err != nil {
				t.Fatal(err)
			}
		}
		if partitions, err := client.Partitions(ctx, hits.Name); partitions != 4 || err != nil {
			t.Fatal(partitions, err)
		}
		spans, err := client.Offsets(ctx, hits.Name)
		if err != nil || len(spans) != 4 || spans[3] != (topic.Span{}) {
			t.Fatal(spans, err)
		}
		if said := log.count("level=WARN"); said > 0 {
			t.Errorf("it warns: %v", log.all())
		}
		hits.Settings["retention.ms"] = "1000000"
		if err := client.EnsureTopics(ctx, hits); err != nil || !log.has(hits.Name, "setting=retention.ms found=172800000 configured=1000000")() {
			t.Errorf("another retention: %v, %v", err, log.all())
		}
		hits.Partitions = 8
		err = client.EnsureTopics(ctx, hits)
		if !errors.Is(err, topic.ErrPartitions) || !errors.Is(err, topic.ErrPermanent) ||
			err.Error() != "topic "+hits.Name+" has 4 partitions and not 8; their number is fixed for a topic's life" {
			t.Errorf("other partitions: %v", err)
		}
	})
}

// Without create, the error has the commands for missing topics, and all errors together.
func TestEnsureTopicsWithoutCreate(t *testing.T) {
	onBoth(t, func(t *testing.T, config kafka.Config) {
		maker := kafkatest.Client(t, config)
		there := newTopic(t, maker, 3, "cleanup.policy=delete")
		config.Create = false
		client := kafkatest.Client(t, config)
		ctx := within(t, time.Minute)
		if err := client.EnsureTopics(ctx, topic.Topic{Name: there, Partitions: 3}); err != nil {
			t.Fatal(err)
		}
		err := client.EnsureTopics(ctx,
			topic.Topic{Name: "absent", Partitions: 16, Replication: 3, Settings: map[string]string{"retention.ms": "1", "cleanup.policy": "delete"}},
			topic.Topic{Name: there, Partitions: 2})
		want := "topic absent does not exist; make it: kafka-topics.sh --bootstrap-server " + config.Brokers[0] +
			" --create --topic absent --partitions 16 --replication-factor 3 --config cleanup.policy=delete --config retention.ms=1\n" +
			"topic " + there + " has 3 partitions and not 2; their number is fixed for a topic's life"
		if err == nil || err.Error() != want || !errors.Is(err, topic.ErrNoTopic) || !errors.Is(err, topic.ErrPartitions) {
			t.Fatalf("EnsureTopics: %v", err)
		}
		if _, err := client.Partitions(ctx, "absent"); !errors.Is(err, topic.ErrNoTopic) {
			t.Fatalf("it was made all the same, or: %v", err)
		}
	})
}

// Settings that would lose records, or could never be written, are refused.
func TestEnsureTopicsRefuses(t *testing.T) {
	client := kafkatest.Client(t, onReal(t))
	ctx := within(t, time.Minute)
	plain := newTopic(t, client, 1, "cleanup.policy=delete")
	strict := fmt.Sprintf("strict.%d", topics.Add(1))
	for says, wanted := range map[string]topic.Topic{
		"topic " + plain + " has cleanup.policy=delete where compact is needed; change it: kafka-configs.sh --bootstrap-server ": {
			Name: plain, Partitions: 1, Settings: map[string]string{"cleanup.policy": "compact"}},
		"topic " + strict + " can never be written: min.insync.replicas is 2, and each partition has 1 copies": {
			Name: strict, Partitions: 1, Settings: map[string]string{"min.insync.replicas": "2"}},
		"making topic a b: [17] Invalid Topic":               {Name: "a b", Partitions: 1},
		"making topic many: [38] Invalid Replication Factor": {Name: "many", Partitions: 1, Replication: 7},
		"making topic odd: [40] Invalid Configuration":       {Name: "odd", Partitions: 1, Settings: map[string]string{"segment.bytes": "10"}},
	} {
		err := client.EnsureTopics(ctx, wanted)
		if err == nil || !strings.HasPrefix(err.Error(), says) || !errors.Is(err, topic.ErrSettings) || !errors.Is(err, topic.ErrPermanent) {
			t.Errorf("EnsureTopics says %v, not %s", err, says)
		}
	}
}

// Kafka refuses to make topics while it starts, with the code for a wrong replication. Only another cause is permanent.
func TestEnsureTopicsWhileKafkaStarts(t *testing.T) {
	cluster, config := fake(t)
	client := kafkatest.Client(t, config)
	wanted := topic.Topic{Name: "hits", Partitions: 1}
	refuse := func(cause string) error {
		cluster.ControlKey(int16(kmsg.CreateTopics), func(request kmsg.Request) (kmsg.Response, error, bool) {
			response := request.ResponseKind().(*kmsg.CreateTopicsResponse)
			response.Topics = []kmsg.CreateTopicsResponseTopic{{Topic: wanted.Name, ErrorCode: kerr.InvalidReplicationFactor.Code,
				ErrorMessage: new("Unable to replicate the partition 1 time(s): " + cause)}}
			return response, nil, true
		})
		return client.EnsureTopics(within(t, time.Minute), wanted)
	}
	err := refuse("All brokers are currently fenced.")
	if errors.Is(err, topic.ErrPermanent) || !errors.Is(err, topic.ErrUnreachable) || err.Error() != "making topic hits: no broker of Kafka is ready: all are fenced" {
		t.Errorf("while all brokers are fenced: %v", err)
	}
	if err := refuse("The target replication factor of 3 cannot be reached because only 1 broker(s) are registered."); !errors.Is(err, topic.ErrPermanent) {
		t.Errorf("with too few brokers: %v", err)
	}
	if err := client.EnsureTopics(within(t, time.Minute), wanted); err != nil {
		t.Error(err)
	}
}

// A client for some topics creates them, knows no others, and creates none by asking.
func TestListedTopics(t *testing.T) {
	onBoth(t, func(t *testing.T, config kafka.Config) {
		all := kafkatest.Client(t, config)
		other := newTopic(t, all, 1)
		mine := fmt.Sprintf("mine.%d", topics.Add(1))
		config.Topics = []string{mine}
		client := kafkatest.Client(t, config)
		ctx := within(t, time.Minute)
		if _, err := client.Partitions(ctx, mine); !errors.Is(err, topic.ErrNoTopic) {
			t.Errorf("before it is made: %v", err)
		}
		if _, err := client.NewReader(mine, 0, 0).Fetch(ctx); !errors.Is(err, topic.ErrNoTopic) {
			t.Errorf("reading it before it is made: %v", err)
		}
		if cluster, err := all.Cluster(ctx); err != nil || slices.Contains(cluster.Topics, mine) {
			t.Errorf("it was made by asking: %v, %v", cluster, err)
		}
		if err := client.EnsureTopics(ctx, topic.Topic{Name: mine, Partitions: 2}); err != nil {
			t.Fatal(err)
		}
		if cluster, err := client.Cluster(ctx); err != nil || !slices.Equal(cluster.Topics, []string{mine}) {
			t.Errorf("the topics are %v, %v", cluster.Topics, err)
		}
		want := "this client was opened without topic " + other
		_, err := client.Offsets(ctx, other)
		_, reading := client.NewReader(other, 0, 0).Fetch(ctx)
		for _, err := range []error{err, reading} {
			if err == nil || !strings.HasSuffix(err.Error(), want) || errors.Is(err, topic.ErrNoTopic) {
				t.Errorf("of another topic it says %v", err)
			}
		}
	})
}
