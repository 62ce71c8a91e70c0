package collector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"weir/internal/kafka"
	"weir/internal/telemetry"
	"weir/pkg/collector/journal"
)

// fileCuts keeps the cuts of files in the collector's journal, and sends those again that Kafka may not have.
type fileCuts struct {
	journal *journal.Journal
	sink    Sink
	logger  *slog.Logger
	faults  *telemetry.Faults
}

func newFileCuts(j *journal.Journal, sink Sink, logger *slog.Logger) *fileCuts {
	return &fileCuts{journal: j, sink: sink, logger: logger, faults: telemetry.NewFaults(logger)}
}

// note implements journal.
func (f *fileCuts) note(c *cut) { f.journal.Note(&c.Cut, func() { c.setNoted(nil) }) }

// done implements journal.
func (f *fileCuts) done(c *cut) { f.journal.Done(c.Source, c.To) }

// resend sends the cuts that were outstanding when the journal was opened, in their order. It skips cuts that are
// older than the sink's retention: the aggregator may no longer know that it has counted them.
func (f *fileCuts) resend(ctx context.Context, retention time.Duration, now time.Time) error {
	recovered := f.journal.Recovered()
	for _, c := range recovered {
		if age := now.Sub(time.UnixMilli(c.Clock)); retention > 0 && age > retention*9/10 {
			f.logger.Error("batches are too old to be sent again: their hits are lost if Kafka does not have them", "log", c.Source, "from", c.From, "to", c.To, "age", age.Round(time.Second))
			f.journal.Done(c.Source, c.To)
			continue
		}
		if err := f.sendAgain(ctx, c); err != nil {
			return err
		}
	}

	if n := len(recovered); n > 0 {
		f.logger.Info("sent the batches again that Kafka may not have had", "cuts", n)
	}
	return nil
}

// sendAgain sends a noted cut that an earlier run may have sent already.
func (f *fileCuts) sendAgain(ctx context.Context, c *journal.Cut) error {
	if len(c.Batches) == 0 {
		f.journal.Done(c.Source, c.To)
		return nil
	}

	var left atomic.Int32
	left.Store(int32(len(c.Batches)))
	err := f.sink.Send(ctx, messages(c, func(b *journal.Batch, err error) {
		if errors.Is(err, kafka.ErrClosed) {
			return // it stays in the journal
		}
		if err != nil {
			f.faults.Note("send", fmt.Errorf("%d hits of %s are lost: %w", b.Hits, c.Source, err))
		}
		if left.Add(-1) == 0 {
			f.journal.Done(c.Source, c.To)
		}
	})...)
	if err != nil {
		return fmt.Errorf("sending outstanding batches: %w", err)
	}
	return nil
}
