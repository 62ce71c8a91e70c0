package aggregator

import (
	"context"

	"weir/pkg/aggregator/windows"
	"weir/pkg/window"
)

// A parcel is the hits of one batch for one window that could not be read: all or none of them are in the window.
type parcel struct {
	window *windows.Window
	offset int64
	latest int64 // what is beyond is ahead of time
	source string
	hits   []waitingHit
}

// A waitingHit is a hit, or with cost 0 the command to unblock.
type waitingHit struct{ at, cost int64 }

// cost is how many hits these are.
func (one *parcel) cost() (sum int64) {
	for _, h := range one.hits {
		sum += h.cost
	}
	return sum
}

// loadOrWait reads the windows that are wanted, and counts what waited for them. While the store is away it leaves
// them, up to the bound; then it returns only when the store is back.
func (p *partition) loadOrWait(ctx context.Context) error {
	for {
		if p.windows.Wanted() == 0 {
			return nil
		}
		if !p.storeRests() {
			err := p.windows.Load(ctx)
			if err == nil {
				p.storeFaults.Over("store")
				return p.countWaiting(ctx)
			}
			if !p.away(err) {
				return err
			}
		}

		if p.waits < p.config.MostWaiting {
			return nil
		}
		p.pause(ctx, tryAgain)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// countWaiting counts the hits that waited, in their order, by the active rules. All windows are read.
func (p *partition) countWaiting(ctx context.Context) error {
	parcels := p.waiting
	p.waiting, p.waits = nil, 0
	for i := range parcels {
		if err := p.countParcel(ctx, &parcels[i]); err != nil {
			return err
		}
	}
	return nil
}

func (p *partition) countParcel(ctx context.Context, one *parcel) error {
	w := one.window
	rule := p.rules.named(w.Rule.Name)
	if rule == nil {
		p.metrics.unruled.Add(float64(one.cost()))
		return nil
	}

	if w.Rule != rule {
		w.Convert(rule)
	}
	if w.Covers(p.stored.Generation, one.offset) {
		p.replayed(w)
		rule.Tally[windows.Replayed] += one.cost()
		return nil
	}

	p.windows.Change(w)
	w.Generation, w.Offset = p.stored.Generation, one.offset
	for _, h := range one.hits {
		if err := p.countWaitingHit(ctx, w, one, h); err != nil {
			return err
		}
	}

	return nil
}

func (p *partition) countWaitingHit(ctx context.Context, w *windows.Window, one *parcel, h waitingHit) error {
	if h.cost == 0 {
		return p.unblock(ctx, w)
	}
	if h.at > one.latest {
		w.Rule.Tally[windows.Ahead] += h.cost
		return nil
	}

	outcome := w.Rule.Policy.Hit(&w.State, h.at, h.cost)
	w.Rule.Tally[outcome.Event] += h.cost
	if outcome.Event == window.Late {
		return nil
	}

	p.reached = max(p.reached, h.at)
	if began(outcome.Event) {
		return p.follow(ctx, w, outcome, one.source)
	}
	return nil
}
