package daemon

import (
	"context"
	"errors"
	"time"

	"weir/internal/store/redis"
	"weir/internal/telemetry"
)

// evicts is the operation of the faults that watchEviction notes.
const evicts = "store"

// watchEviction notes while a Redis evicts keys, until the context is done: its settings may change, and after a failover
// it is another server.
func watchEviction(ctx context.Context, check func(context.Context) error, faults *telemetry.Faults) {
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		within, cancel := context.WithTimeout(ctx, 2*time.Second) // a Redis that hangs must not delay the end of the process
		err := check(within)
		cancel()
		switch {
		case errors.Is(err, redis.ErrEvicts):
			faults.Note(evicts, err)
		case err == nil:
			faults.Over(evicts)
		}
	}
}
