package kafka

import (
	"context"

	"weir/internal/topic"
)

// A ProducerConfig names the topic of a Producer and bounds its memory.
type ProducerConfig = topic.AppenderConfig

// A Message is one record to be written.
type Message = topic.Message

// A Record is one record of a partition.
type Record = topic.Record

// A Span is the extent of a partition.
type Span = topic.Span

// A Topic is the required state of a topic.
type Topic = topic.Topic

// An Identity names one topic of one cluster.
type Identity = topic.Identity

// A Cluster is the brokers' view of their cluster.
type Cluster = topic.Cluster

// A Commit is a group's committed offset of a partition.
type Commit = topic.Commit

// A GroupState is the brokers' view of a group.
type GroupState = topic.GroupState

// A Group shares the partitions of its topics among all processes that run it under one name.
type Group = topic.Group

// A Claim is a partition that this member owns for a while.
type Claim = topic.Claim

// An Owner works on one partition while this member owns it.
type Owner = topic.Owner

// MaxMetadata is how many bytes of metadata a commit may carry.
const MaxMetadata = topic.MaxMetadata

var (
	_ topic.Log      = (*Client)(nil)
	_ topic.Appender = (*Producer)(nil)
	_ topic.Reader   = (*Reader)(nil)
)

// Appender implements topic.Log.
func (c *Client) Appender(config topic.AppenderConfig) topic.Appender { return c.OpenProducer(config) }

// Reader implements topic.Log.
func (c *Client) Reader(name string, partition int, offset int64, maxBytes int) topic.Reader {
	r := c.NewReader(name, partition, offset)
	r.MaxBytes = maxBytes
	return r
}

// newClaim makes the claim of a partition that commits with a generation's committer.
func newClaim(commits *committer, name string, partition, partitions int) *Claim {
	claim := topic.NewClaim(name, partition, partitions, func(ctx context.Context, commit Commit) error {
		return commits.repeat(ctx, name, partition, commit)
	})
	claim.Member = commits.member
	return claim
}
