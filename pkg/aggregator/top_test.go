package aggregator

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A partition answers when its fetch has. A question about the heaviest keys waits for one fetch, not for one of each partition.
func TestTheHeaviestKeysAreAskedOfAllPartitionsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const partitions, fetch = 4, 500 * time.Millisecond
		l := newLab(t, 1, newMemoryStore())
		l.agg.config.Partitions = partitions
		ctx, stop := context.WithCancel(t.Context())
		var turning sync.WaitGroup
		for number := range partitions {
			p := l.takes()
			l.hits("192.0.2.1", 1)
			l.settle(p)
			l.now = l.newest()
			p.number = number
			l.agg.hold(p)
			turning.Go(func() {
				for ctx.Err() == nil {
					time.Sleep(fetch)
					p.asks.answerNow(ctx)
				}
			})
		}
		begun := time.Now()
		keys, err := l.agg.heaviest(ctx, "few", partitions)
		if err != nil || len(keys) != partitions {
			t.Errorf("%v, %v; want a key of each of %d partitions", keys, err, partitions)
		}
		if waited := time.Since(begun); waited > 2*fetch {
			t.Errorf("waited %v for fetches of %v", waited, fetch)
		}
		stop()
		turning.Wait()
	})
}
