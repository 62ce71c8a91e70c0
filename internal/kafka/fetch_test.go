package kafka_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/internal/topic"
)

// TestAThrottledFetch makes a broker answer as Kafka does when a quota is used up: only with how long to wait.
func TestAThrottledFetch(t *testing.T) {
	cluster, config := fake(t, kfake.SeedTopics(1, "log"))
	client := kafkatest.Client(t, config)
	producer := client.OpenProducer(topic.AppenderConfig{Topic: "log", Partitions: 1})
	if err := producer.Send(t.Context(), topic.Message{Value: []byte("a hit")}); err != nil {
		t.Fatal(err)
	}
	if err := producer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	cluster.ControlKey(int16(kmsg.Fetch), func(request kmsg.Request) (kmsg.Response, error, bool) {
		response := request.ResponseKind().(*kmsg.FetchResponse)
		response.ThrottleMillis = 20
		return response, nil, true
	})
	reader := client.NewReader("log", 0, 0)
	records, err := reader.Fetch(within(t, time.Minute))
	if err != nil || len(records) != 0 || reader.Next() != 0 {
		t.Fatalf("%v %v, next %d", records, err, reader.Next())
	}
	records, err = reader.Fetch(within(t, time.Minute))
	if err != nil || len(records) != 1 || string(records[0].Value) != "a hit" {
		t.Fatalf("%v %v", records, err)
	}
}

// TestARefusalThatThrottles makes a broker refuse, and ask to wait.
func TestARefusalThatThrottles(t *testing.T) {
	cluster, config := fake(t, kfake.SeedTopics(1, "log"))
	const pause = 500 * time.Millisecond
	cluster.ControlKey(int16(kmsg.Fetch), func(request kmsg.Request) (kmsg.Response, error, bool) {
		response := request.ResponseKind().(*kmsg.FetchResponse)
		partition := kmsg.NewFetchResponseTopicPartition()
		partition.ErrorCode = kerr.NotLeaderForPartition.Code
		response.Topics = []kmsg.FetchResponseTopic{{Topic: "log", Partitions: []kmsg.FetchResponseTopicPartition{partition}}}
		response.ThrottleMillis = int32(pause.Milliseconds())
		return response, nil, true
	})
	reader := kafkatest.Client(t, config).NewReader("log", 0, 0)
	if _, err := reader.Fetch(within(t, time.Minute)); !errors.Is(err, topic.ErrNoLeader) {
		t.Fatal(err)
	}
	cluster.ControlKey(int16(kmsg.Fetch), func(request kmsg.Request) (kmsg.Response, error, bool) {
		response := request.ResponseKind().(*kmsg.FetchResponse)
		response.ThrottleMillis = 1
		return response, nil, true
	})
	begun := time.Now()
	if _, err := reader.Fetch(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took < pause {
		t.Errorf("the next fetch was answered after %s", took)
	}
}

// TestAFetchThatIsGivenUp continues to read while the answer to an abandoned fetch arrives late.
func TestAFetchThatIsGivenUp(t *testing.T) {
	cluster, config := fake(t, kfake.SeedTopics(1, "log"))
	client := kafkatest.Client(t, config)
	producer := client.OpenProducer(topic.AppenderConfig{Topic: "log", Partitions: 1})
	defer producer.Close(context.WithoutCancel(t.Context()))
	send := func(value string) {
		if err := producer.Send(t.Context(), topic.Message{Value: []byte(value)}); err != nil {
			t.Fatal(err)
		}
	}
	first, later := strings.Repeat("a", 1000), strings.Repeat("b", 1000)
	send(first)
	reader := client.NewReader("log", 0, 0)
	read := func(r *kafka.Reader) string {
		for {
			if records, err := r.Fetch(within(t, time.Minute)); err != nil {
				t.Fatal(err)
			} else if len(records) > 0 {
				return string(records[0].Value)
			}
		}
	}
	read(reader)
	ctx, cancel := context.WithCancel(t.Context())
	cluster.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		cancel() // while the broker waits for a record
		return nil, nil, false
	})
	if records, err := reader.Fetch(ctx); err == nil {
		t.Fatalf("%v came", records)
	}
	reader.SetNext(0)
	records, err := reader.Fetch(within(t, time.Minute))
	if err != nil || len(records) != 1 {
		t.Fatal(records, err)
	}
	send(later)
	if got := read(client.NewReader("log", 0, 1)); got != later {
		t.Errorf("%.10s… came", got)
	}
	if string(records[0].Value) != first {
		t.Errorf("the record has become %.10s…", records[0].Value)
	}
}
