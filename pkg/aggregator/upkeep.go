package aggregator

import (
	"context"
	"time"

	"weir/internal/store"
	"weir/pkg/aggregator/position"
	"weir/pkg/aggregator/windows"
)

const (
	lastWrites    = 20 * time.Second // for writing everything back when the partition is given up
	mostSources   = 100_000          // of a partition that are remembered
	progressEvery = time.Second      // at most, a backlog's commit for tools
	mostDue       = 500              // windows that are decided together
	mostLeaving   = 5000             // evicted windows that wait to be written
	mostGathered  = 4096             // hits of group rules that are sent together
	owedPause     = time.Millisecond
	owedPauses    = 1000
)

// breathe writes back between the batches of one answer of Kafka.
func (p *partition) breathe(ctx context.Context, more bool) error {
	if more {
		p.asks.answerNow(ctx)
		if p.saver.Breathes() && !p.outage.lasts() && !p.publisher.Owes() {
			if err := p.saver.WriteBack(ctx); err != nil && !p.outage.begin(err) {
				return err
			}
		}
	}

	for p.windows.Leaving() > mostLeaving {
		p.awaitOwed(ctx)
		if !p.outage.lasts() && !p.publisher.Owes() {
			err := p.saver.WriteBack(ctx)
			if err == nil {
				continue
			}
			if !p.outage.begin(err) {
				return err
			}
		}

		p.asks.pause(ctx, tryAgain)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}

	return nil
}

// save takes the next checkpoint when it is due, and writes back some of what has changed.
func (p *partition) save(ctx context.Context, idle bool) error {
	if p.outage.lasts() {
		return nil
	}
	if at := p.position.At(); p.saver.Due(at.Offset, idle, p.publisher.Awaits()) {
		if err := p.publisher.PublishChanged(ctx); err != nil { // it belongs to what the checkpoint waits for
			return err
		}
		p.saver.Take(p.checkpointAt(at), p.publisher.Sent())
		p.windows.TakeOver()
	}

	topic := windows.TopicNote{Of: generation(p.position.At().Generation), Topic: string(p.position.Topic())}
	notes := append(p.publisher.Notes(), p.windows.Over()...)
	if topic != p.topic {
		notes = append(notes, store.Change{Space: store.Notes, Key: []byte(windows.HitsTopicKey), Value: topic.Append(nil)})
	}

	if p.saver.Writes() {
		p.awaitOwed(ctx)
	}
	if p.publisher.Owes() {
		return ctx.Err()
	}
	saved, err := p.saver.Save(ctx, idle, p.publisher.Acknowledged(), notes)
	if saved {
		p.windows.WroteOver()
		p.saved(topic)
	}
	return err
}

// lookAtFound looks at the windows whose offences the last owner had not decided yet, or had decided when Kafka may not have
// had it: these are published again.
func (p *partition) lookAtFound(ctx context.Context, _ bool) error {
	for p.windows.Finds() && !p.outage.lasts() && p.windows.Waiting() == 0 && ctx.Err() == nil {
		found := p.windows.Found(mostDue, p.rules.named)
		if err := p.windows.Load(ctx); err != nil {
			return err
		}
		for _, w := range found {
			p.windows.Await(w)
			if w.Verdict != nil && w.Verdict.Listed {
				p.windows.Change(w) // so that there is a checkpoint, which it is published with
				p.publisher.Skipped(w)
			}
		}
		p.windows.TookFound(mostDue)
		p.windows.Settle()
	}
	return nil
}

// decideDue decides what the time has decided that the partition's hits have come to, for keys that send nothing more.
func (p *partition) decideDue(ctx context.Context, _ bool) error {
	for !p.outage.lasts() && p.windows.Waiting() == 0 && ctx.Err() == nil {
		due := p.windows.Due(p.counter.reached, mostDue, p.rules.named)
		if len(due) == 0 {
			return nil
		}
		if err := p.windows.Load(ctx); err != nil {
			return err
		}

		p.amid = true
		for _, w := range due {
			p.counter.decideDue(w)
		}
		if err := p.publisher.Publish(ctx, p.counter.takeDecided()); err != nil {
			return err
		}
		if err := p.publisher.SendHits(ctx); err != nil {
			return err
		}
		p.amid = false
		p.windows.Settle()
	}
	return nil
}

// awaitOwed waits a moment for the hits of groups that have to be in the log before windows are written.
func (p *partition) awaitOwed(ctx context.Context) {
	for i := 0; i < p.owedPauses && p.publisher.Owes() && ctx.Err() == nil; i++ {
		p.asks.pause(ctx, owedPause)
	}
}

// checkpointAt is what is to be stored of now, with counting to go on at a point.
func (p *partition) checkpointAt(at position.Point) windows.Checkpoint {
	return windows.Checkpoint{Generation: at.Generation, Offset: at.Offset, Last: at.Last, Checksum: at.Checksum, Reached: p.counter.reached,
		Listed: p.list.Newest(), Sources: p.counter.sources.Append(nil), Traffic: p.windows.Traffic.Append(nil, at.Generation, at.Offset)}
}

// saved notes that a checkpoint was written, with the notes.
func (p *partition) saved(topic windows.TopicNote) {
	p.publisher.Noted()
	p.topic = topic
	if stored := p.storedPoint(); stored.Generation != p.noted.Generation || stored.Offset > p.noted.Offset {
		p.note(stored)
	}
}

// noteProgress has the group show how far a backlog is counted, because its next checkpoint may be seconds away. The end
// of the log is shown only when the store has it.
func (p *partition) noteProgress(context.Context, bool) error {
	behind := p.position.Lag().Records > 0 && p.windows.Waiting() == 0
	if behind && p.config.Now().Sub(p.notedAt) >= progressEvery {
		p.note(p.position.At())
	}
	return nil
}

// note has the group show that the partition is counted up to a point.
func (p *partition) note(at position.Point) {
	p.noted, p.notedAt = at, p.config.Now()
	p.commits.Note(at.Offset)
}

// storedPoint is where the last checkpoint stands.
func (p *partition) storedPoint() position.Point {
	stored, _ := p.saver.Stored()
	return position.Point{Generation: stored.Generation, Offset: stored.Offset}
}

// publishAgain publishes what the list may not have.
func (p *partition) publishAgain(ctx context.Context, _ bool) error {
	if p.outage.lasts() || p.windows.Waiting() > 0 {
		return nil
	}
	return p.publisher.PublishAgain(ctx)
}

// mark tells readers of the list how far the partition is counted, unless hits wait.
func (p *partition) mark(ctx context.Context, _ bool) error {
	if p.windows.Waiting() > 0 || !p.position.Settled() {
		return nil
	}
	at := p.position.At()
	return p.publisher.Mark(ctx, at.Generation, at.Offset, p.counter.reached)
}

// sweepOn deletes some of what is clear.
func (p *partition) sweepOn(ctx context.Context, _ bool) error {
	if p.outage.lasts() || p.windows.Waiting() > 0 {
		return nil
	}
	stored, _ := p.saver.Stored()
	deleted, err := p.sweep.Turn(ctx, p.config.Now(), &stored, p.counter.reached)
	p.metrics.swept.Add(float64(deleted))
	return err
}

// finish makes everything safe before the partition is given up: the next owner need not read anything again.
func (p *partition) finish() {
	if p.windows == nil || p.own.Fence == (store.Fence{}) || p.stopped != "" || p.amid {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastWrites)
	defer cancel()
	for ctx.Err() == nil {
		err := p.save(ctx, true)
		if err != nil {
			p.logger.Warn("not all is written back; the next owner counts it again", "why", err)
			return
		}
		if p.windows.Waiting() > 0 || p.saver.Saved(p.position.At().Offset) {
			break
		}
		if p.windows.Dirty() == 0 || p.outage.lasts() {
			p.asks.pause(ctx, 10*time.Millisecond) // for Kafka to acknowledge, or the store to answer
		}
	}

	if err := p.config.Store.Sync(ctx); err != nil {
		p.logger.Warn("the store was not synced", "why", err)
	}
	stored, _ := p.saver.Stored()
	p.commits.Finish(ctx, stored.Offset)
}
