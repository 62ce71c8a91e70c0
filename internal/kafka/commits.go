package kafka

import (
	"context"
	"fmt"
	"slices"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/internal/sleep"
	"weir/internal/topic"
)

// Committed returns a group's commits for all partitions of a topic. The group need not have members.
func (c *Client) Committed(ctx context.Context, group, name string) ([]topic.Commit, error) {
	partitions, err := c.Partitions(ctx, name)
	if err != nil {
		return nil, err
	}

	numbers := make([]int, partitions)
	for p := range numbers {
		numbers[p] = p
	}

	found, err := c.fetchCommits(ctx, group, name, numbers)
	if err != nil {
		return nil, fmt.Errorf("reading the commits of group %s for %s: %w", group, name, c.cause(ctx, err))
	}

	// Brokers may leave out partitions without a commit.
	commits := slices.Repeat([]topic.Commit{{Offset: -1}}, partitions)
	for _, p := range found {
		commits[p.Partition] = topic.Commit{Offset: p.CommittedOffset, Metadata: p.Metadata}
	}
	return commits, nil
}

// fetchCommits asks a group's coordinator. A group without members so far has no commits, which some brokers call an
// error.
func (c *Client) fetchCommits(ctx context.Context, group, name string, partitions []int) ([]kafkago.OffsetFetchPartition, error) {
	response, err := c.kafka.OffsetFetch(ctx, &kafkago.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{name: partitions}})
	if err != nil {
		return nil, err
	}
	if unknownGroup(response.Error) {
		return nil, nil
	}
	if response.Error != nil {
		return nil, response.Error
	}

	for _, p := range response.Topics[name] {
		if p.Error != nil {
			return nil, p.Error
		}
	}

	return response.Topics[name], nil
}

// repeat commits for a claim's partition, as this member of this generation. Claims of one generation that commit at the
// same time share a request, and each gets its own result. It repeats failures for a while until the context ends.
func (c *committer) repeat(ctx context.Context, topicName string, partition int, commit topic.Commit) error {
	var t trouble
	for {
		err := c.commit(ctx, topicName, partition, commit)
		if err == nil {
			return nil
		}
		err = fmt.Errorf("committing %s/%d for group %s: %w", topicName, partition, c.group, c.client.cause(ctx, err))
		if kind := topic.KindOf(err); ctx.Err() != nil || kind == topic.ErrExpelled || kind == topic.ErrTooLarge {
			return err
		}

		// Repeating does no harm: it is the same offset, and the coordinator refuses a former generation.
		pause := t.another(time.Now())
		if !t.settles(err) {
			c.client.errorLog.note("commit", err)
		}
		sleep.For(ctx, pause)
	}
}
