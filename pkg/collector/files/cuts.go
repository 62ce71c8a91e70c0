package files

import (
	"context"
	"fmt"
	"log/slog"

	"weir/internal/telemetry"
	"weir/internal/topic"
	"weir/pkg/collector/journal"
	"weir/pkg/collector/pipeline"
)

// cuts keeps the cuts of files in the collector's journal, and sends those again that Kafka may not have.
type cuts struct {
	journal  *journal.Journal
	pipeline *pipeline.Pipeline
	logger   *slog.Logger
	faults   *telemetry.Faults
}

// Note implements journal.
func (f *cuts) Note(c *pipeline.Cut) { f.journal.Note(&c.Cut, func() { c.SetNoted(nil) }) }

// Done implements journal.
func (f *cuts) Done(c *pipeline.Cut) { f.journal.Done(c.Source, c.To) }

// send sends the messages of a cut, with its note where they are kept together.
func (f *cuts) send(ctx context.Context, c *journal.Cut, messages []topic.Message) error {
	if f.journal.HasNotes() {
		return f.journal.Land(ctx, c, messages)
	}
	return f.pipeline.Send(ctx, c, messages)
}

// resend sends the cuts that were outstanding when the journal was opened, in their order. It skips cuts that are too
// old to be sent again.
func (f *cuts) resend(ctx context.Context) error {
	recovered := f.journal.Recovered()
	for _, c := range recovered {
		if age, is := f.pipeline.TooOld(c.Clock); is {
			f.logger.Error("batches are too old to be sent again: their hits are lost if Kafka does not have them", "log", c.Source, "from", c.From, "to", c.To, "age", age)
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
func (f *cuts) sendAgain(ctx context.Context, c *journal.Cut) error {
	settled := func() { f.journal.Done(c.Source, c.To) }
	if err := f.pipeline.SendAgain(ctx, c, f.send, settled, func(err error) { f.faults.Note("send", err) }); err != nil {
		return fmt.Errorf("sending outstanding batches: %w", err)
	}
	return nil
}
