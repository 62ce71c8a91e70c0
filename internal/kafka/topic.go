package kafka

import (
	"context"

	"weir/internal/topic"
)

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
func newClaim(commits *committer, name string, partition, partitions int) *topic.Claim {
	claim := topic.NewClaim(name, partition, partitions, func(ctx context.Context, commit topic.Commit) error {
		return commits.repeat(ctx, name, partition, commit)
	})
	claim.Member = commits.member
	return claim
}
