package postgres

import "context"

// SweepNow sweeps once, when no other does.
func (b *Backend) SweepNow(ctx context.Context) error {
	c, err := b.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	return b.sweep(ctx, c)
}

// CommitSQL is the statement of a commit.
var CommitSQL = commitSQL
