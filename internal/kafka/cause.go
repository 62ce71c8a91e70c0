package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/produce"

	"weir/internal/topic"
)

// cause turns an error of kafka-go into the true cause, in plain words. It is the one place that reads kafka-go's
// errors.
func (c *Client) cause(ctx context.Context, err error) error {
	var known *topic.Error
	var code kafkago.Error
	var unsent *produce.Error
	switch {
	// The caller or the client ended the call. This has to be asked first: kafka-go returns all kinds of errors then.
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case c.closed.Load():
		return topic.Errorf(topic.ErrClosed, "the client is closed")
	case errors.As(err, &known):
		return known
	case errors.As(err, &code):
		return c.explained(code, err)
	case errors.Is(err, protocol.ErrNoTopic), errors.Is(err, protocol.ErrNoPartition), errors.Is(err, protocol.ErrNoLeader):
		return c.truth(ctx, err)
	case errors.As(err, &unsent):
		return &topic.Error{Text: "the partitions' leaders have just changed", Kind: topic.ErrNoLeader, Cause: err}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return &topic.Error{Text: fmt.Sprintf("no answer from Kafka within %s", requestTimeout), Kind: topic.ErrUnreachable, Cause: err}
	case errors.Is(err, net.ErrClosed), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &topic.Error{Text: "the connection to Kafka was lost", Kind: topic.ErrUnreachable, Cause: err}
	}

	return &topic.Error{Text: err.Error(), Kind: topic.ErrOther, Cause: err}
}

// truth asks the metadata for the cause when kafka-go finds no broker for a partition. kafka-go returns the same error
// when it could not ask any broker at all.
func (c *Client) truth(ctx context.Context, err error) error {
	metadata, failed := c.kafka.Metadata(ctx, &kafkago.MetadataRequest{})
	if failed != nil {
		return c.cause(ctx, failed)
	}

	name := subject(err)
	if unlisted := c.unlisted(name); unlisted != nil {
		return unlisted
	}

	for _, found := range metadata.Topics {
		if found.Name == name && found.Error == nil {
			return c.absent(found, err)
		}
	}

	return c.explained(kafkago.UnknownTopicOrPartition, err)
}

// absent returns why a partition of an existing topic has no broker to ask.
func (c *Client) absent(found kafkago.Topic, err error) error {
	var at *protocol.TopicPartitionError
	if errors.As(err, &at) && int(at.Partition) >= len(found.Partitions) {
		return topic.Errorf(topic.ErrNoTopic, "there is no such partition: the topic has %d", len(found.Partitions))
	}
	return &topic.Error{Text: "the partition has no leader at the moment", Kind: topic.ErrNoLeader, Cause: err}
}

func subject(err error) string {
	var topicErr *protocol.TopicError
	var partition *protocol.TopicPartitionError
	switch {
	case errors.As(err, &topicErr):
		return topicErr.Topic
	case errors.As(err, &partition):
		return partition.Topic
	}
	return ""
}
