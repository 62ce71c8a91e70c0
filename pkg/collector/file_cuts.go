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
)

// fileCuts keeps the cuts of files in the collector's journal, and sends those again that Kafka may not have.
type fileCuts struct {
	journal *fileJournal
	sink    Sink
	logger  *slog.Logger
	faults  *telemetry.Faults
}

func newFileCuts(j *fileJournal, sink Sink, logger *slog.Logger) *fileCuts {
	return &fileCuts{journal: j, sink: sink, logger: logger, faults: telemetry.NewFaults(logger)}
}

// note implements journal.
func (f *fileCuts) note(c *cut) { f.journal.note(&c.cutRecord, func() { c.setNoted(nil) }) }

// done implements journal.
func (f *fileCuts) done(c *cut) { f.journal.done(c.source, c.to) }

// resend sends the cuts that were outstanding when the journal was opened, in their order. It skips cuts that are
// older than the sink's retention: the aggregator may no longer know that it has counted them.
func (f *fileCuts) resend(ctx context.Context, retention time.Duration) error {
	recovered := f.journal.recovered()
	for _, c := range recovered {
		if age := time.Since(time.UnixMilli(c.clock)); retention > 0 && age > retention*9/10 {
			f.logger.Error("batches are too old to be sent again: their hits are lost if Kafka does not have them", "log", c.source, "from", c.from, "to", c.to, "age", age.Round(time.Second))
			f.journal.done(c.source, c.to)
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
func (f *fileCuts) sendAgain(ctx context.Context, c *cutRecord) error {
	if len(c.batches) == 0 {
		f.journal.done(c.source, c.to)
		return nil
	}

	var left atomic.Int32
	left.Store(int32(len(c.batches)))
	err := f.sink.Send(ctx, messages(c, func(b *batch, err error) {
		if errors.Is(err, kafka.ErrClosed) {
			return // it stays in the journal
		}
		if err != nil {
			f.faults.Note("send", fmt.Errorf("%d hits of %s are lost: %w", b.hits, c.source, err))
		}
		if left.Add(-1) == 0 {
			f.journal.done(c.source, c.to)
		}
	})...)
	if err != nil {
		return fmt.Errorf("sending outstanding batches: %w", err)
	}
	return nil
}
