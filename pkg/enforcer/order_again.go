package enforcer

import (
	"context"
	"fmt"
	"slices"

	"weir/pkg/blocklist"
)

// againAtOnce is how many orders are sent again in one parcel.
const againAtOnce = 1000

// orderAgain sends manual entries again that the topic no longer has, because it was created again, or because an older
// one of the same target came after them. They are the same orders with their ids, so that several enforcers can do it
// without harm. It sends no events.
func (e *Enforcer) orderAgain(ctx context.Context) {
	set := e.config.Set
	for {
		changed := set.Changed()
		if orders := set.LeftBehind(); len(orders) > 0 {
			e.config.Logger.Info("the blocklist's topic does not have some manual entries, or older ones behind them, and they are sent again", "orders", len(orders))
			e.putAgain(orders)
		}

		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

func (e *Enforcer) putAgain(orders []*blocklist.Order) {
	for some := range slices.Chunk(orders, againAtOnce) {
		if err := e.putSome(some); err != nil {
			e.faults.Note("again", fmt.Errorf("sending manual entries again: %w", err))
		}
	}
}

func (e *Enforcer) putSome(orders []*blocklist.Order) error {
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
