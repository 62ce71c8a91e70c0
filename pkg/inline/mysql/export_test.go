package mysql

import (
	"context"

	"weir/pkg/inline/stored"
)

// SweepNow sweeps once, when no other does.
func (b *Backend) SweepNow(ctx context.Context) error {
	c, err := b.upkeep.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return b.sweep(ctx, c)
}

// RequestOf is the request of a commit.
func RequestOf(c *stored.Commit) (text string, args []any) {
	q, _ := requestOf(c)
	return q.String(), q.args
}
