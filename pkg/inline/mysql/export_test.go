package mysql

import "context"

// SweepNow sweeps once, when no other does.
func (b *Backend) SweepNow(ctx context.Context) error {
	c, err := b.upkeep.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return sweep(ctx, c)
}
