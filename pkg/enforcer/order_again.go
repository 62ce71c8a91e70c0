package enforcer

import (
	"context"
	"fmt"
	"slices"

	"weir/pkg/blocklist"
)

// againAtOnce is how many orders are sent again in one parcel.
const againAtOnce = 1000

// orderAgain gives manual entries again when the topic was created again without them: the same orders with their ids,
// so that several enforcers can do it without harm. It sends no events.
func (e *Enforcer) orderAgain(ctx context.Context) {
	set := e.config.Set
	for {
		// Asked for before LeftBehind, which returns each order once: a swap in between wakes the loop again.
		changed := set.Changed()
		for orders := range slices.Chunk(set.LeftBehind(), againAtOnce) {
			e.config.Logger.Warn("the blocklist's topic was created again, and manual entries are sent again", "orders", len(orders))
			if err := e.putAgain(orders); err != nil {
				e.faults.Note("again", fmt.Errorf("sending the manual entries of the former topic again: %w", err))
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
