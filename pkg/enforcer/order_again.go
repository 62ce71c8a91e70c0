package enforcer

import (
	"context"
	"fmt"
	"slices"

	"weir/pkg/blocklist"
)

// againAtOnce is how many orders are sent again in one parcel.
const againAtOnce = 1000

// orderAgain gives again what people ordered, where the topic was made anew without it: the same orders with their ids, so
// that several enforcers do it without harm. Nothing of it is an event.
func (e *Enforcer) orderAgain(ctx context.Context) {
	set := e.config.Set
	for {
		changed := set.Changed()
		for orders := range slices.Chunk(set.LeftBehind(), againAtOnce) {
			e.config.Logger.Warn("the blocklist's topic was made anew, and what people ordered is sent again", "orders", len(orders))
			if err := e.putAgain(orders); err != nil {
				e.faults.Note("again", fmt.Errorf("sending orders again that were in the topic before it was made anew: %w", err))
			}
		}

		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

func (e *Enforcer) putAgain(orders []*blocklist.Order) error {
	p := &parcel{}
	for _, order := range orders {
		value, err := order.Append(nil)
		if err != nil {
			return err
		}
		p.Orders = append(p.Orders, message{Key: order.RecordKey(), Value: value})
	}
	return e.outbox.put(p)
}
