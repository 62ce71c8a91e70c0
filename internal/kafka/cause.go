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
)

// cause turns an error of kafka-go into the true cause, in plain words. It is the one place that reads kafka-go's
// errors.
func (c *Client) cause(ctx context.Context, err error) error {
	var known *causeError
	var code kafkago.Error
	var unsent *produce.Error
	switch {
	// Whatever failed, it failed because the caller or the client ended it. This has to be asked first: kafka-go
	// returns all kinds of errors then.
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case c.closed.Load():
		return errorf(ErrClosed, "the client is closed")
	case errors.As(err, &known):
		return known
	case errors.As(err, &code):
		return c.explained(code, err)
	case errors.Is(err, protocol.ErrNoTopic), errors.Is(err, protocol.ErrNoPartition), errors.Is(err, protocol.ErrNoLeader):
		return c.truth(ctx, err)
	case errors.As(err, &unsent):
		return &causeError{Text: "the partitions' leaders have just changed", Kind: ErrNoLeader, Cause: err}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return &causeError{Text: fmt.Sprintf("no answer from Kafka within %s", requestTimeout), Kind: ErrUnreachable, Cause: err}
	case errors.Is(err, net.ErrClosed), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &causeError{Text: "the connection to Kafka was lost", Kind: ErrUnreachable, Cause: err}
	}

	return &causeError{Text: err.Error(), Kind: ErrOther, Cause: err}
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

	for _, topic := range metadata.Topics {
		if topic.Name == name && topic.Error == nil {
			return c.absent(topic, err)
		}
	}

	return c.explained(kafkago.UnknownTopicOrPartition, err)
}

// absent returns why a partition of an existing topic has no broker to ask.
func (c *Client) absent(topic kafkago.Topic, err error) error {
	var at *protocol.TopicPartitionError
	if errors.As(err, &at) && int(at.Partition) >= len(topic.Partitions) {
		return errorf(ErrNoTopic, "there is no such partition: the topic has %d", len(topic.Partitions))
	}
	return &causeError{Text: "the partition has no leader at the moment", Kind: ErrNoLeader, Cause: err}
}

func subject(err error) string {
	var topic *protocol.TopicError
	var partition *protocol.TopicPartitionError
	switch {
	case errors.As(err, &topic):
		return topic.Topic
	case errors.As(err, &partition):
		return partition.Topic
	}
	return ""
}
