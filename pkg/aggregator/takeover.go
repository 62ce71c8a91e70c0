package aggregator

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"weir/internal/store"
	"weir/internal/topic"
	"weir/pkg/aggregator/position"
	"weir/pkg/aggregator/publishing"
	"weir/pkg/aggregator/windows"
	"weir/pkg/hit"
)

// take makes the partition ours and goes to where its stored checkpoint says.
func (p *partition) take(ctx context.Context) error {
	p.drop()
	if err := p.own.Take(ctx); err != nil {
		return fmt.Errorf("taking the partition: %w", err)
	}

	values, err := p.own.Read(ctx, store.Notes, [][]byte{[]byte(windows.CheckpointKey), []byte(publishing.NoteKey), []byte(windows.HitsTopicKey), []byte(publishing.TopicKey), []byte(windows.GuardKey), []byte(windows.TrafficKey)})
	if err != nil {
		return fmt.Errorf("reading the checkpoint: %w", err)
	}
	if err := p.restore(ctx, values[0], values[2]); err != nil {
		return err
	}
	if err := p.restoreGuard(values[4]); err != nil {
		return err
	}
	stored, _ := p.saver.Stored()
	if err := p.restoreTraffic(values[5], &stored); err != nil {
		return err
	}
	if err := p.publisher.Begin(ctx, values[1], values[3], stored.Listed); err != nil {
		return err
	}
	if err := p.windows.FindNoted(ctx); err != nil {
		return fmt.Errorf("reading which keys are awaited: %w", err)
	}
	if err := p.sweepOn(ctx, false); err != nil { // before anything is written: a new log has no windows yet
		return err
	}
	if stored.Offset > 0 {
		p.note(p.storedPoint()) // the last owner's may have been lost, and there may be nothing more to count
	}

	p.amid = false
	p.faults.Over("partition")
	p.logger.Info("takes the partition", "fence", p.own.Fence, "generation", stored.Generation, "offset", stored.Offset)
	p.show()
	return nil
}

// restore goes to where the stored checkpoint says; without one to the beginning of the log. A store that has windows and
// no checkpoint has lost it.
func (p *partition) restore(ctx context.Context, value, topicNote []byte) error {
	newest := int64(-1)
	if value == nil {
		var err error
		if newest, err = p.own.NewestGeneration(ctx); err != nil {
			return fmt.Errorf("looking for windows without a checkpoint: %w", err)
		}
	}
	if value == nil && newest < 0 { // written before any window is, so that these are never of an unknown generation
		first := windows.Checkpoint{Generation: p.position.Next(0).Generation, Last: -1, Listed: -1, Sources: p.counter.sources.Append(nil)}
		value = first.Append(nil)
		if err := p.own.Write(ctx, []store.Change{{Space: store.Notes, Key: []byte(windows.CheckpointKey), Value: value}}); err != nil {
			return fmt.Errorf("writing the first checkpoint: %w", err)
		}
	}

	found, err := windows.ReadCheckpoint(value)
	if err == nil {
		err = p.counter.sources.Read(found.Sources)
	}

	switch {
	case ends(err):
		return err
	case err != nil:
		if found, err = p.withoutCheckpoint(ctx, err); err != nil {
			return err
		}
	}

	p.saver.Begin(found)
	p.counter.reached = found.Reached
	p.topic = windows.TopicNote{Of: generation(found.Generation)}
	p.topic.Topic = windows.ReadTopicNote(topicNote, p.topic.Of)
	p.position.Begin(position.Point{Generation: found.Generation, Offset: found.Offset, Last: found.Last, Checksum: found.Checksum}, topic.Identity(p.topic.Topic))
	return nil
}

// restoreGuard takes the guard's counts that the store has. They are of the same moment as the windows.
func (p *partition) restoreGuard(value []byte) error {
	guard, err := windows.ReadGuard(value, p.seed)
	if ends(err) {
		return err
	}
	if err != nil {
		p.logger.Error("new blocks are counted from zero for the guards of rules", "error", err)
	}
	p.windows.Guard = guard
	return nil
}

// restoreTraffic takes the shares of networks that the store has with the checkpoint.
func (p *partition) restoreTraffic(value []byte, stored *windows.Checkpoint) error {
	traffic, err := windows.ReadTraffic(value, p.seed, stored.Generation, stored.Offset)
	if ends(err) {
		return err
	}
	if err != nil {
		p.logger.Error("the requests of networks are counted from zero for the guards of group rules", "error", err)
	}
	p.windows.Traffic = traffic
	return nil
}

func generation(number int64) string { return strconv.FormatInt(number, 10) }

// withoutCheckpoint goes to the beginning of the log where the checkpoint is damaged. The windows say which hits they
// have, as long as the generation is theirs; so nothing is counted again.
func (p *partition) withoutCheckpoint(ctx context.Context, damage error) (windows.Checkpoint, error) {
	newest, err := p.own.NewestGeneration(ctx)
	if err != nil {
		return windows.Checkpoint{}, fmt.Errorf("finding what the windows have, for %w: %w", damage, err)
	}

	if newest < 0 {
		newest = p.position.Next(0).Generation
	}
	p.logger.Error("the checkpoint in the store is damaged or gone: the log of hits is read again from its beginning, and what the windows have is skipped",
		"error", damage, "generation", newest)

	p.metrics.taken.WithLabelValues("checkpoint").Inc()
	return windows.Checkpoint{Generation: newest, Last: -1, Listed: -1}, nil
}

// drop forgets all that is in memory.
func (p *partition) drop() {
	p.windows = windows.New(p.hotShare(), p.own, windows.Notices{
		Cold:    func(count int) { p.metrics.lookups.cold.Add(float64(count)) },
		New:     p.metrics.lookups.fresh.Inc,
		Damaged: func(err error) { p.faults.Note("damaged window", err) },
		Saved:   func(took time.Duration) { p.metrics.checkpoint.Observe(took.Seconds()) },
	})
	p.windows.Guard, p.windows.Traffic = windows.NewGuard(p.seed), windows.NewTraffic(p.seed)
	p.saver.Reset(p.windows)
	p.sweep = &windows.Sweep{Set: p.windows, Rules: p.rules.named, Late: p.config.Late}
	p.counter.forget(p.windows, hit.NewPositions(mostSources, p.config.Retention))
	p.publisher.Reset(p.windows)
	p.position.Reset()
	p.outage.forget()
	p.amid = true
}

// lost reports records that the log no longer had when they were to be read.
func (p *partition) lost(from, to int64) {
	p.logger.Error("the log begins later than we have counted: hits were lost before they were read", "records", to-from, "counted up to", from, "begins at", to)
	p.metrics.lost.Add(float64(to - from))
	p.problems.note(fmt.Sprintf("%d records were deleted before they were read: their hits are not counted", to-from))
}

// newGeneration begins at the start of a log that is another than the one before. Hits of that log that were counted stay
// counted: it is written first, and the sources' positions keep their batches from being counted twice.
func (p *partition) newGeneration(ctx context.Context, replaced *position.Replaced) error {
	if err := p.windows.Load(ctx); err != nil { // what waits is of the log before
		return err
	}
	if err := p.countWaiting(ctx); err != nil {
		return err
	}
	if err := p.publisher.SendHits(ctx); err != nil {
		return err
	}
	for p.publisher.Owes() { // the log before has none of them any more
		p.asks.pause(ctx, owedPause)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}

	for p.windows.Dirty() > 0 {
		if err := p.saver.WriteBack(ctx); err != nil {
			return err
		}
	}

	begin := p.position.Next(replaced.Start)
	p.publisher.Restart()
	if err := p.saver.Write(ctx, p.checkpointAt(begin), p.publisher.Notes()); err != nil {
		return err
	}
	p.saved(p.topic)

	p.logger.Error("the log of hits is another than it was: it is read from its beginning", "why", replaced.Why, "generation", begin.Generation)
	p.metrics.taken.WithLabelValues("generation").Inc()
	p.position.Restart(begin)
	return nil
}
