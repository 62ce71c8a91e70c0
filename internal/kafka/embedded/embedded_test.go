package embedded_test

import (
	"testing"

	"go.uber.org/goleak"

	"weir/internal/kafka"
	"weir/internal/kafka/embedded"
	"weir/internal/topic"
)

func open(t *testing.T, config embedded.Config) (*embedded.Broker, *kafka.Client) {
	t.Helper()
	broker, err := embedded.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kafka.Open(kafka.Config{Brokers: []string{broker.Address()}, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	return broker, client
}

// Records are there after a restart at the same address; Close ends all goroutines.
func TestRestart(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	config := embedded.Config{Folder: t.TempDir()}
	broker, client := open(t, config)
	if err := client.EnsureTopics(t.Context(), topic.Topic{Name: "hits", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	producer := client.OpenProducer(topic.AppenderConfig{Topic: "hits", Partitions: 1})
	if err := producer.Send(t.Context(), make([]topic.Message, 100)...); err != nil {
		t.Fatal(err)
	}
	if err := producer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	config.Listen = broker.Address()
	client.Close()
	broker.Close()

	broker, client = open(t, config)
	defer broker.Close()
	defer client.Close()
	if spans, err := client.Offsets(t.Context(), "hits"); err != nil || spans[0] != (topic.Span{End: 100}) {
		t.Errorf("the log has %+v, %v", spans, err)
	}
}
