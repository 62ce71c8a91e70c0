package window

// newUniform makes the generic cell rate algorithm (GCRA): hits come at least W/N apart, and Config.Burst of
// them may come early. So 1 + Burst hits pass at once, and in any span of W at most N + 1 + Burst. With a burst of 0, a
// client may send N hits evenly over W, and not two of them at once.
func newUniform(c *Config) (algorithm, error) {
	return newBuckets(c, func(Limit) int64 { return 1 + c.Burst })
}
