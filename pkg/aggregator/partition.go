package aggregator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/kafka"
	"weir/internal/store"
	"weir/internal/telemetry"
	"weir/pkg/aggregator/position"
	"weir/pkg/aggregator/publishing"
	"weir/pkg/aggregator/windows"
	"weir/pkg/hit"
)

const (
	lastWrites  = 20 * time.Second // for writing everything back when the partition is given up
	mostSources = 100_000          // of a partition that are remembered
	mostLeaving = 5000             // evicted windows that wait to be written
)

// A partition is one that is ours. Everything in it belongs to one goroutine, but what says otherwise.
type partition struct {
	config   *Config
	metrics  *metrics
	list     *publishing.List
	hotShare func() int // how many windows may be hot

	number  int
	logger  *slog.Logger
	faults  *telemetry.Faults
	asks    *questions
	reads   sync.WaitGroup                  // of the store, for questions, in goroutines of their own
	shown   atomic.Pointer[PartitionStatus] // for everyone
	stopped string                          // why it does not count any more

	own       *windows.Owned
	outage    *outage
	windows   *windows.Set
	saver     *windows.Saver
	sweep     *windows.Sweep
	position  *position.Position
	commits   *position.Commits
	rules     *rulebook
	publisher *publishing.Publisher
	counter   *counter
	amid      bool // what is in memory is true for no offset: nothing of it may be written
}

// run counts until the context is done or the group has given the partition to another.
func (p *partition) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := p.hold(ctx)
		switch {
		case ctx.Err() != nil || err == nil:
			p.finish()
			return
		case ends(err):
			p.logger.Error("the partition is not counted any more", "error", err)
			p.stop(err)
			p.asks.answerUntil(ctx, ctx.Done())
			return
		case errors.Is(err, store.ErrFenced):
			p.logger.Warn("what is in memory is dropped and the partition taken anew", "why", err)
			p.metrics.taken.WithLabelValues("fenced").Inc()
			if stored, _ := p.saver.Stored(); !p.commits.Confirm(ctx, stored.Offset) {
				p.logger.Warn("the partition is another's now")
				return
			}
		default:
			p.faults.Note("partition", err)
			p.metrics.storeErrors.WithLabelValues("take").Inc()
			p.asks.pause(ctx, tryAgain)
		}
	}
}

// stop notes why the partition is not counted any more. How many records wait is not known from then on.
func (p *partition) stop(why error) {
	p.stopped = why.Error()
	p.position.Halt()
	p.show()
}

// hold takes the partition and counts until an error; nil when it is another's.
func (p *partition) hold(ctx context.Context) error {
	if err := p.take(ctx); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if p.commits.Expelled() {
			return nil
		}
		if err := p.turn(ctx); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// take makes the partition ours and goes to where its stored checkpoint says.
func (p *partition) take(ctx context.Context) error {
	p.drop()
	if err := p.own.Take(ctx); err != nil {
		return fmt.Errorf("taking the partition: %w", err)
	}

	values, err := p.own.Read(ctx, store.Notes, [][]byte{[]byte(windows.CheckpointKey), []byte(publishing.NoteKey)})
	if err != nil {
		return fmt.Errorf("reading the checkpoint: %w", err)
	}
	if err := p.restore(ctx, values[0]); err != nil {
		return err
	}
	stored, _ := p.saver.Stored()
	if err := p.publisher.Begin(ctx, values[1], stored.Listed); err != nil {
		return err
	}
	if stored.Offset > 0 {
		p.commits.Note(stored.Offset) // the last owner's may have been lost, and there may be nothing more to count
	}

	p.amid = false
	p.faults.Over("partition")
	p.logger.Info("takes the partition", "fence", p.own.Fence, "generation", stored.Generation, "offset", stored.Offset)
	p.show()
	return nil
}

// restore goes to where the stored checkpoint says; without one to the beginning of the log.
func (p *partition) restore(ctx context.Context, value []byte) error {
	if value == nil { // written before any window is, so that these are never of an unknown generation
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
	p.position.Begin(position.Point{Generation: found.Generation, Offset: found.Offset, Last: found.Last, Checksum: found.Checksum})
	return nil
}

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
	p.logger.Error("the checkpoint in the store is damaged: the log of hits is read again from its beginning, and what the windows have is skipped",
		"error", damage, "generation", newest)

	p.metrics.taken.WithLabelValues("checkpoint").Inc()
	return windows.Checkpoint{Generation: newest, Last: -1, Listed: -1}, nil
}

// drop forgets all that is in memory.
func (p *partition) drop() {
	p.windows = windows.New(p.hotShare(), p.own, windows.Notices{
		Cold:    func(count int) { p.metrics.lookups.cold.Add(float64(count)) },
		Damaged: func(err error) { p.faults.Note("damaged window", err) },
		Saved:   func(took time.Duration) { p.metrics.checkpoint.Observe(took.Seconds()) },
	})
	p.saver.Reset(p.windows)
	p.sweep = &windows.Sweep{Set: p.windows, Rules: p.rules.named, Late: p.config.Late}
	p.counter.forget(p.windows, hit.NewPositions(mostSources, p.config.Retention))
	p.publisher.Reset(p.windows)
	p.position.Reset()
	p.outage.forget()
	p.amid = true
}

// turn fetches and counts once, and then does some of the other work.
func (p *partition) turn(ctx context.Context) error {
	p.windows.Resize(p.hotShare())
	p.rules.refresh()
	p.asks.answerNow(ctx)
	records, err := p.fetch(ctx)
	if err != nil && p.outage.begin(err) { // while another generation was to begin
		p.position.Seek()
		p.asks.pause(ctx, tryAgain)
		return ctx.Err()
	}

	if err != nil {
		return err
	}
	if err := p.count(ctx, records); err != nil {
		return err
	}

	idle := len(records) == 0
	for _, do := range []func(context.Context, bool) error{p.save, p.publishAgain, p.sweepOn, p.mark} {
		if err := do(ctx, idle); err != nil && !p.outage.begin(err) {
			return err
		}
	}

	p.show()
	return ctx.Err()
}

// fetch returns the next records that are to be counted. A log that is not the one that we know begins a new
// generation.
func (p *partition) fetch(ctx context.Context) ([]kafka.Record, error) {
	records, err := p.read(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	records, replaced := p.position.Accept(records, err)
	if replaced != nil {
		return nil, p.newGeneration(ctx, replaced)
	}
	return records, nil
}

// read fetches, and answers meanwhile: an idle log has the fetch wait for half a second.
func (p *partition) read(ctx context.Context) (records []kafka.Record, err error) {
	fetched := make(chan struct{})
	go func() {
		defer close(fetched)
		records, err = p.position.Fetch(ctx)
	}()

	p.asks.answerUntil(ctx, fetched)
	return records, err
}

// lost reports records that the log no longer had when they were to be read.
func (p *partition) lost(from, to int64) {
	p.logger.Error("the log begins later than we have counted: hits were lost before they were read", "records", to-from, "counted up to", from, "begins at", to)
	p.metrics.lost.Add(float64(to - from))
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
	p.saved()

	p.logger.Error("the log of hits is another than it was: it is read from its beginning", "why", replaced.Why, "generation", begin.Generation)
	p.metrics.taken.WithLabelValues("generation").Inc()
	p.position.Restart(begin)
	return nil
}

// count counts the records. Some batches are gathered together, and either all of them are counted or the partition is
// taken again: the memory in between is true for no offset.
func (p *partition) count(ctx context.Context, records []kafka.Record) error {
	if len(records) == 0 {
		p.amid = true
		if err := p.loadOrWait(ctx); err != nil {
			return err
		}
		p.amid = false
		p.windows.Settle()
	}

	for len(records) > 0 {
		p.amid = true
		n, err := p.counter.gather(ctx, records)
		if err != nil {
			return err
		}
		if err := p.loadOrWait(ctx); err != nil {
			return err
		}

		generation := p.position.At().Generation
		for _, b := range p.counter.gathered() {
			p.saver.Counted(p.counter.countBatch(b, generation))
			if err := p.publisher.Publish(ctx, p.counter.takeDecided()); err != nil {
				return err
			}
		}

		p.amid = false
		p.windows.Settle()
		p.position.Counted(records[:n])
		records = records[n:]
		if err := p.breathe(ctx, len(records) > 0); err != nil {
			return err
		}
	}

	p.rules.settle()
	return nil
}

// loadOrWait reads the windows that are wanted, and counts what waited for them. While the store is away it leaves
// them, up to the bound; then it returns only when the store is back.
func (p *partition) loadOrWait(ctx context.Context) error {
	for {
		if p.windows.Wanted() == 0 {
			return nil
		}
		if !p.outage.lasts() {
			err := p.windows.Load(ctx)
			if err == nil {
				p.outage.over()
				return p.countWaiting(ctx)
			}
			if !p.outage.begin(err) {
				return err
			}
		}

		if p.windows.Waiting() < p.config.MostWaiting {
			return nil
		}
		p.asks.pause(ctx, tryAgain)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// countWaiting counts the hits that waited, in their order. All windows are read.
func (p *partition) countWaiting(ctx context.Context) error {
	generation := p.position.At().Generation
	parcels := p.windows.TakeWaiting()
	for i := range parcels {
		p.counter.countParcel(&parcels[i], generation)
		if err := p.publisher.Publish(ctx, p.counter.takeDecided()); err != nil {
			return err
		}
	}
	return nil
}

// breathe writes back between the batches of one answer of Kafka.
func (p *partition) breathe(ctx context.Context, more bool) error {
	if more {
		p.asks.answerNow(ctx)
		if p.saver.Breathes() && !p.outage.lasts() {
			if err := p.saver.WriteBack(ctx); err != nil && !p.outage.begin(err) {
				return err
			}
		}
	}

	for p.windows.Leaving() > mostLeaving {
		err := p.saver.WriteBack(ctx)
		if err == nil {
			continue
		}
		if !p.outage.begin(err) {
			return err
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
	}

	saved, err := p.saver.Save(ctx, idle, p.publisher.Acknowledged(), p.publisher.Notes())
	if saved {
		p.saved()
	}
	return err
}

// checkpointAt is what is to be stored of now, with counting to go on at a point.
func (p *partition) checkpointAt(at position.Point) windows.Checkpoint {
	return windows.Checkpoint{Generation: at.Generation, Offset: at.Offset, Last: at.Last, Checksum: at.Checksum, Reached: p.counter.reached,
		Listed: p.list.Newest(), Sources: p.counter.sources.Append(nil)}
}

// saved notes that a checkpoint was written, with the notes.
func (p *partition) saved() {
	p.publisher.Noted()
	stored, _ := p.saver.Stored()
	p.commits.Note(stored.Offset)
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
		if p.windows.Dirty() == 0 {
			p.asks.pause(ctx, 10*time.Millisecond) // for Kafka to acknowledge
		}
	}

	if err := p.config.Store.Sync(ctx); err != nil {
		p.logger.Warn("the store was not synced", "why", err)
	}
	stored, _ := p.saver.Stored()
	p.commits.Finish(ctx, stored.Offset)
}

// show tells everyone how the partition stands.
func (p *partition) show() {
	at, lag := p.position.At(), p.position.Lag()
	stored, storedAt := p.saver.Stored()
	s := &PartitionStatus{Partition: p.number, Offset: at.Offset, Lag: lag.Records, Generation: at.Generation, Fence: p.own.Fence.String(),
		Reached: instant(p.counter.reached), Hot: p.windows.Len(), Dirty: p.windows.Dirty(), Waiting: p.windows.Waiting(),
		Unsent: int(p.publisher.Sent() - p.publisher.Acknowledged()), Checkpoint: stored.Offset, Error: p.stopped, seen: lag}
	if !storedAt.IsZero() {
		at := storedAt.UTC()
		s.Written = &at
	}
	p.shown.Store(s)
	p.metrics.show(s)
}
