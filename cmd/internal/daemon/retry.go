package daemon

import (
	"context"
	"time"

	"weir/internal/sleep"
	"weir/internal/telemetry"
)

// retry calls until there is no error, the context is done, or an error cannot pass by itself. It logs the other errors
// as those of a thing, and reports each to unready.
func (p *Process) retry(ctx context.Context, thing string, unready func(why string), passes func(error) bool, call func() error) error {
	faults := telemetry.NewFaults(p.Logger)
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		err := call()
		if err == nil {
			faults.Over(thing)
			return nil
		}
		if ctx.Err() != nil || !passes(err) {
			return err
		}

		faults.Note(thing, err)
		unready(err.Error())
		sleep.For(ctx, pause)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}
