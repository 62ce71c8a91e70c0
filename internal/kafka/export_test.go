package kafka

// Member is the id under which the claim's member is known to the group.
func (c *Claim) Member() string { return c.committer.member }
