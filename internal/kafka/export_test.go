package kafka

import (
	"context"

	kafkago "github.com/segmentio/kafka-go"
)

// DeleteTopic deletes a topic.
func (c *Client) DeleteTopic(ctx context.Context, name string) error {
	response, err := c.kafka.DeleteTopics(ctx, &kafkago.DeleteTopicsRequest{Topics: []string{name}})
	if err == nil {
		err = response.Errors[name]
	}
	return err
}

// ReadIdentified reads an answer to a request for a topic's identity.
func ReadIdentified(b []byte) error {
	_, err := readIdentified(b)
	return err
}

// Packed and Repacked make batches of any bytes.
var (
	Packed   = packed
	Repacked = repacked
)
