package kafka

// Member returns the id of the claim's member in the group.
func (c *Claim) Member() string { return c.committer.member }
