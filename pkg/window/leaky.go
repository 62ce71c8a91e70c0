package window

// newLeaky makes leaky buckets used as meters: a hit pours into a bucket that holds N and drains N per W. At first it is
// empty. So N hits pass at once, and in any span of W at most 2N.
func newLeaky(c *Config) (algorithm, error) {
	return newBuckets(c, func(l Limit) int64 { return l.Hits })
}
