package aggregator

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
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

// However many ask for the heaviest keys, most of the time is left for hits, and the same question has one answer.
func TestManyAskForTheHeaviestKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const askers, takes = 16, 200 * time.Millisecond
		turns := newTopTurns()
		began, looked, answered, refused := time.Now(), atomic.Int64{}, atomic.Int64{}, atomic.Int64{}
		var asking sync.WaitGroup
		for n := range askers {
			asking.Go(func() {
				for time.Since(began) < time.Minute {
					_, err := turns.take(t.Context(), topQuestion{"few", n % 2 * n}, func() ([]heavyKey, time.Duration, error) {
						looked.Add(1)
						time.Sleep(takes)
						return []heavyKey{}, takes, nil
					})
					switch {
					case err == nil:
						answered.Add(1)
						time.Sleep(10 * time.Millisecond)
					case errors.Is(err, errTop):
						refused.Add(1)
					default:
						t.Error(err)
					}
				}
			})
		}
		asking.Wait()
		took := time.Since(began)
		if share := float64(looked.Load()) * takes.Seconds() / took.Seconds(); share > 0.3 || share < 0.2 {
			t.Errorf("answers took %.0f%% of the time", share*100)
		}
		if answered.Load() <= looked.Load() || refused.Load() == 0 {
			t.Errorf("%d were answered by %d looks, and %d refused", answered.Load(), looked.Load(), refused.Load())
		}
	})
}

// A partition goes on between questions, although others ask all the time.
func TestAPartitionGoesOnWhileOthersAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &questions{0, make(chan func(context.Context))}
		began := time.Now()
		var asking sync.WaitGroup
		for range 4 {
			asking.Go(func() {
				for time.Since(began) < time.Minute {
					_, _ = ask(t.Context(), q, func(context.Context) (int, error) { time.Sleep(5 * time.Millisecond); return 0, nil })
				}
			})
		}
		synctest.Wait()
		q.answerNow(t.Context())
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("it answered for %v", took)
		}
		done := make(chan struct{})
		go func() {
			time.Sleep(time.Second)
			close(done)
		}()
		q.answerUntil(t.Context(), done)
		asking.Wait()
	})
}
