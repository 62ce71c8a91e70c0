package replay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/internal/config"
	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/live"
	"weir/internal/topic"
)

const (
	topicQueueBytes = 8 << 20
	topicBatch      = 100 // lines that are given to the producer together
	closePatience   = 30 * time.Second
)

// A topicSink writes each line as a record without a key into a topic, to all partitions in turn.
type topicSink struct {
	topics     *live.Topics
	producer   topic.Appender
	topic      string
	partitions int
	next       int
	waiting    []topic.Message

	mu      sync.Mutex
	refused error // the first permanent error of Kafka
}

func openTopicSink(c *cobra.Command, settings *config.Config, name string) (*topicSink, error) {
	if len(settings.Kafka.Brokers) == 0 {
		return nil, exit.Wrongf("--topic writes to Kafka, and the configuration names no kafka.brokers; send to an http source with --to")
	}
	if ownTopic(settings, name) {
		return nil, exit.Wrongf("the parts write to the topic %s themselves; name with --topic one that a collector reads", name)
	}
	b, err := live.Connect(settings, c.ErrOrStderr(), name)
	if err != nil {
		return nil, err
	}

	partitions, err := b.Partitions(c.Context(), name)
	if errors.Is(err, topic.ErrNoTopic) {
		err = fmt.Errorf("there is no topic %s; create it with as many partitions as it needs", name)
	}

	if err != nil {
		b.Close()
		return nil, err
	}

	producer := b.Appender(topic.AppenderConfig{Topic: name, Partitions: partitions, QueueBytes: topicQueueBytes})
	return &topicSink{topics: b, producer: producer, topic: name, partitions: partitions}, nil
}

func (t *topicSink) add(ctx context.Context, line []byte) error {
	t.waiting = append(t.waiting, topic.Message{Partition: t.next, Value: append([]byte(nil), line...), Done: t.done})
	t.next = (t.next + 1) % t.partitions
	if len(t.waiting) < topicBatch {
		return nil
	}
	return t.flush(ctx)
}

func (t *topicSink) done(_ int64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil && t.refused == nil {
		t.refused = err
	}
}

// flush gives the waiting lines to the producer. They are in Kafka only after close.
func (t *topicSink) flush(ctx context.Context) error {
	waiting := t.waiting
	t.waiting = nil
	if err := t.refusal(); err != nil || len(waiting) == 0 {
		return err
	}
	return t.producer.Send(ctx, waiting...)
}

func (t *topicSink) refusal() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.refused
}

func (t *topicSink) close(failed bool) error {
	defer t.topics.Close()
	patience := closePatience
	if failed {
		patience = time.Second
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := t.producer.Close(ctx)
	if err == nil && !failed {
		err = t.refusal()
	}
	return err
}

func (t *topicSink) result() sinkResult { return sinkResult{} }
