package window

// newUniform makes the generic cell rate algorithm (GCRA): hits come at least W/N apart, of which Config.Burst may come
// early. So 1 + Burst hits pass at once, and in any span of W at most N + 1 + Burst. Who sends N hits evenly over W is let
// through, who sends two of them at once is not.
func newUniform(c *Config) (algorithm, error) {
	return newBuckets(c, func(Limit) int64 { return 1 + c.Burst })
}
