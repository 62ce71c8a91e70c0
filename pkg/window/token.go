package window

// newToken makes token buckets: a hit takes a token, N tokens come in W, and the bucket keeps at most Config.Burst (N where
// that is 0). At first it is full. So Burst hits pass at once, and in any span of W at most Burst + N.
func newToken(c *Config) (algorithm, error) {
	return newBuckets(c, func(l Limit) int64 {
		if c.Burst > 0 {
			return c.Burst
		}
		return l.Hits
	})
}
