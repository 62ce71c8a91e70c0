package pipeline

import (
	"context"
	"fmt"
	"log/slog"

	"weir/internal/telemetry"
	"weir/internal/topic"
	"weir/pkg/collector/journal"
)

// KeptCuts keep the cuts of logs in the collector's journal, and send those again that Kafka may not have. They are a
// Journal for streams with LateNotes.
type KeptCuts struct {
	journal  *journal.Journal
	pipeline *Pipeline
	logger   *slog.Logger
	faults   *telemetry.Faults
}

// NewKeptCuts keeps cuts in a journal.
func NewKeptCuts(p *Pipeline, j *journal.Journal, logger *slog.Logger) *KeptCuts {
	return &KeptCuts{journal: j, pipeline: p, logger: logger, faults: telemetry.NewFaults(logger)}
}

// Note implements Journal.
func (k *KeptCuts) Note(c *Cut) { k.journal.Note(&c.Cut, func() { c.SetNoted(nil) }) }

// Done implements Journal.
func (k *KeptCuts) Done(c *Cut) { k.journal.Done(c.Source, c.To) }

// Send sends the messages of a cut, with its note where they are kept together.
func (k *KeptCuts) Send(ctx context.Context, c *journal.Cut, messages []topic.Message) error {
	if k.journal.HasNotes() {
		return k.journal.Land(ctx, c, messages)
	}
	return k.pipeline.Send(ctx, c, messages)
}

// Resend sends the cuts that were outstanding when the journal was opened, in their order. It skips cuts that are too
// old to be sent again. It is called before any source runs.
func (k *KeptCuts) Resend(ctx context.Context) error {
	recovered := k.journal.Recovered()
	for _, c := range recovered {
		if age, is := k.pipeline.TooOld(c.Clock); is {
			k.logger.Error("batches are too old to be sent again: their hits are lost if Kafka does not have them", "log", c.Source, "from", c.From, "to", c.To, "age", age)
			k.journal.Done(c.Source, c.To)
			continue
		}
		if err := k.sendAgain(ctx, c); err != nil {
			return err
		}
	}

	if n := len(recovered); n > 0 {
		k.logger.Info("sent the batches again that Kafka may not have had", "cuts", n)
	}
	return nil
}

// Standing returns the state of a log in the journal, nil when that has none, after it has sent the log's cuts again
// that Kafka may not have.
func (k *KeptCuts) Standing(ctx context.Context, source string) (*journal.Log, error) {
	log, outstanding, err := k.journal.Standing(ctx, source)
	if err != nil {
		return nil, err
	}
	for _, c := range outstanding {
		if err := k.sendAgain(ctx, c); err != nil {
			return nil, err
		}
	}
	return log, nil
}

// Settle returns when all that Kafka has of a log is noted on the disk.
func (k *KeptCuts) Settle(ctx context.Context, source string) error {
	_, _, err := k.journal.Standing(ctx, source)
	return err
}

// sendAgain sends a noted cut that an earlier run may have sent already.
func (k *KeptCuts) sendAgain(ctx context.Context, c *journal.Cut) error {
	settled := func() { k.journal.Done(c.Source, c.To) }
	if err := k.pipeline.SendAgain(ctx, c, k.Send, settled, func(err error) { k.faults.Note("send", err) }); err != nil {
		return fmt.Errorf("sending outstanding batches: %w", err)
	}
	return nil
}
