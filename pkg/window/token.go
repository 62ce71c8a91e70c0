package window

// newToken makes token buckets: a hit takes a token, of which N come in W and at most Config.Burst are kept (N where
// it is 0). At first the bucket is full. So Burst hits pass at once, and in any span of W at most Burst + N.
func newToken(c *Config) (algorithm, error) {
	return newBuckets(c, func(l Limit) int64 {
		if c.Burst > 0 {
			return c.Burst
		}
		return l.Hits
	})
}
