package aggregator

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"weir/internal/store"
	"weir/internal/telemetry"
	"weir/internal/topic"
	"weir/pkg/aggregator/position"
	"weir/pkg/aggregator/publishing"
	"weir/pkg/aggregator/windows"
)

// A partition is one that is ours. Everything in it belongs to one goroutine, but what says otherwise.
type partition struct {
	config   *Config
	metrics  *metrics
	list     *publishing.List
	hotShare func() int // how many windows may be hot

	seed uint64 // of the hashes of keys

	owedPauses int // how often it waits for the hits of groups before windows are written

	keptClear time.Duration // for how long a clear window stays in memory: its key may come back

	number  int
	logger  *slog.Logger
	faults  *telemetry.Faults
	asks    *questions
	shown   atomic.Pointer[PartitionStatus] // for everyone
	stopped string                          // why it does not count any more

	own       *windows.Owned
	outage    *outage
	windows   *windows.Set
	saver     *windows.Saver
	sweep     *windows.Sweep
	position  *position.Position
	commits   *position.Commits
	noted     position.Point // the last that was given to commits
	notedAt   time.Time
	rules     *rulebook
	publisher *publishing.Publisher
	counter   *counter
	problems  *problems
	topic     windows.TopicNote // as the store has it
	worked    time.Time         // when there last was something to do
	amid      bool              // what is in memory is true for no offset: nothing of it may be written

	contests    int // how often others took it since contestedAt
	contestedAt time.Time
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
			p.end(ctx, err)
			return
		case errors.Is(err, store.ErrFenced):
			p.logger.Warn("what is in memory is dropped and the partition taken anew", "why", err)
			p.metrics.taken.WithLabelValues("fenced").Inc()
			if stored, _ := p.saver.Stored(); !p.commits.Confirm(ctx, stored.Offset) {
				p.logger.Warn("the partition is another's now")
				return
			}
			if p.contested(ctx) {
				p.end(ctx, errShared)
				return
			}
		default:
			p.faults.Note("partition", err)
			p.metrics.storeErrors.WithLabelValues("take").Inc()
			p.asks.pause(ctx, tryAgain)
		}
	}
}

// end counts no more until the context is done, and only answers.
func (p *partition) end(ctx context.Context, why error) {
	p.logger.Error("the partition is not counted any more", "error", why)
	p.stop(why)
	p.asks.answerUntil(ctx, ctx.Done())
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

	reached := min(p.counter.reached, p.config.Now().UnixMilli()) // hits of a wrong clock do not make others old
	p.windows.Forget(reached - (p.config.Late + p.keptClear).Milliseconds())
	idle := len(records) == 0
	for _, do := range []func(context.Context, bool) error{p.lookAtFound, p.decideDue, p.save, p.publishAgain, p.sweepOn, p.mark, p.noteProgress} {
		if err := do(ctx, idle); err != nil && !p.outage.begin(err) {
			return err
		}
	}

	p.rest(idle)
	p.show()
	return ctx.Err()
}

// restsAfter is for how long there is nothing to do before the partition waits longer for hits.
const restsAfter = 10 * time.Second

// rest makes turns rarer where there is nothing to do but to wait for hits.
func (p *partition) rest(idle bool) {
	now := p.config.Now()
	if !idle || p.publisher.Walks() || p.sweep.Walks() || p.windows.Dirty() > 0 || p.windows.Waiting() > 0 || now.Before(p.worked) {
		p.worked = now
	}
	p.position.SetPatient(now.Sub(p.worked) >= restsAfter)
}

// fetch returns the next records that are to be counted. A log that is not the one that we know begins a new
// generation.
func (p *partition) fetch(ctx context.Context) ([]topic.Record, error) {
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

// read fetches, and answers meanwhile: an idle log has the fetch wait for half a second or two.
func (p *partition) read(ctx context.Context) (records []topic.Record, err error) {
	fetched := make(chan struct{})
	go func() {
		defer close(fetched)
		records, err = p.position.Fetch(ctx)
	}()

	p.asks.answerUntil(ctx, fetched)
	return records, err
}

// count counts the records. Some batches are gathered together, and either all of them are counted or the partition is
// taken again: the memory in between is true for no offset.
func (p *partition) count(ctx context.Context, records []topic.Record) error {
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
		for _, b := range p.counter.batches[:p.counter.used] {
			p.saver.Counted(p.counter.countBatch(b, generation))
			if err := p.publisher.Publish(ctx, p.counter.takeDecided()); err != nil {
				return err
			}
		}

		p.amid = false
		p.windows.Settle()
		p.position.Counted(records[:n])
		records = records[n:]
		if p.publisher.Gathered() >= mostGathered || p.windows.Leaving() > mostLeaving {
			if err := p.publisher.SendHits(ctx); err != nil {
				return err
			}
		}
		if err := p.breathe(ctx, len(records) > 0); err != nil {
			return err
		}
	}

	p.rules.settle()
	return p.publisher.SendHits(ctx)
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
				p.outage.faults.Over("store")
				return p.countWaiting(ctx)
			}
			if !p.outage.begin(err) {
				return err
			}
		}

		if p.windows.Waiting() < p.config.MostWaiting {
			return nil
		}
		if err := p.publisher.SendHits(ctx); err != nil { // they need no store
			return err
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

// show tells everyone how the partition stands.
func (p *partition) show() {
	at, lag := p.position.At(), p.position.Lag()
	stored, storedAt := p.saver.Stored()
	s := &PartitionStatus{Partition: p.number, Offset: at.Offset, Lag: lag.Records, Generation: at.Generation, Fence: p.own.Fence.String(),
		Reached: instant(p.counter.reached), Hot: p.windows.Len(), Dirty: p.windows.Dirty(), Waiting: p.windows.Waiting(),
		Unsent: int(p.publisher.Sent() - p.publisher.Acknowledged()), Checkpoint: stored.Offset, Error: p.stopped,
		Problem: p.problems.present(p.counter.reached, p.counter.recorded), seen: lag}
	if !storedAt.IsZero() {
		s.Written = new(storedAt.UTC())
	}
	p.shown.Store(s)
}
