package kafka

import "weir/internal/topic"

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
