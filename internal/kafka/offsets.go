package kafka

import (
	"context"
	"fmt"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/internal/topic"
)

// Offsets returns the spans of a topic's partitions. One error fails the call: a partition that cannot be asked never
// looks like an empty one.
func (c *Client) Offsets(ctx context.Context, name string) ([]topic.Span, error) {
	partitions, err := c.Partitions(ctx, name)
	if err != nil {
		return nil, err
	}
	spans := make([]topic.Span, partitions)
	for p := range spans {
		if spans[p], err = c.span(ctx, name, p); err != nil {
			return nil, err
		}
	}
	return spans, nil
}

// PartitionSpan returns the span of one partition, even if others have no leader.
func (c *Client) PartitionSpan(ctx context.Context, name string, partition int) (topic.Span, error) {
	return c.span(ctx, name, partition)
}

func (c *Client) span(ctx context.Context, name string, partition int) (topic.Span, error) {
	offsets, err := c.listOffsets(ctx, name, kafkago.FirstOffsetOf(partition), kafkago.LastOffsetOf(partition))
	return topic.Span{Start: offsets.FirstOffset, End: offsets.LastOffset}, err
}

// OffsetAt returns the offset of the first record with that time or a later one, or the partition's end when there is
// none. The time is the record's own, not that of its contents.
func (c *Client) OffsetAt(ctx context.Context, name string, partition int, at time.Time) (int64, error) {
	offsets, err := c.listOffsets(ctx, name, kafkago.TimeOffsetOf(partition, at))
	if err != nil {
		return 0, err
	}
	for offset := range offsets.Offsets {
		if offset >= 0 {
			return offset, nil
		}
	}
	span, err := c.span(ctx, name, partition)
	return span.End, err
}

// listOffsets asks about one partition. kafka-go sends a request for each question.
func (c *Client) listOffsets(ctx context.Context, name string, questions ...kafkago.OffsetRequest) (kafkago.PartitionOffsets, error) {
	response, err := c.kafka.ListOffsets(ctx, &kafkago.ListOffsetsRequest{Topics: map[string][]kafkago.OffsetRequest{name: questions}})
	var offsets kafkago.PartitionOffsets
	if err == nil {
		offsets = response.Topics[name][0]
		err = offsets.Error // an error of the partition: err is nil then, and the offsets mean nothing
	}
	if err != nil {
		return offsets, fmt.Errorf("asking for the offsets of %s/%d: %w", name, questions[0].Partition, c.rightless(c.cause(ctx, err), "Describe", name))
	}
	return offsets, nil
}
