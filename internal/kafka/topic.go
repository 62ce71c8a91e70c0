package kafka

import (
	"context"

	"weir/internal/topic"
)

// A ProducerConfig names the topic of a Producer and bounds its memory.
type ProducerConfig = topic.AppenderConfig

//revive:disable:exported package topic explains them

// The other words of package topic, which a Client implements.
type (
	Message    = topic.Message
	Record     = topic.Record
	Span       = topic.Span
	Topic      = topic.Topic
	Identity   = topic.Identity
	Cluster    = topic.Cluster
	Commit     = topic.Commit
	GroupState = topic.GroupState
	Group      = topic.Group
	Claim      = topic.Claim
	Owner      = topic.Owner
)

//revive:enable:exported

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
