package position

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/topic"
)

// A commit that an outage of Kafka has taken is done when Kafka is back, though no hit comes.
func TestACommitThatWasLostIsDoneLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		var committed atomic.Int64
		c := NewCommits(t.Context(), func(_ context.Context, offset int64) error {
			if away.Load() {
				return errors.New("no broker answers")
			}
			committed.Store(offset)
			return nil
		})
		defer c.Close()
		away.Store(true)
		c.Note(7)
		for range 3 {
			synctest.Wait()
			c.Note(8)
		}
		if got := committed.Load(); got != 0 {
			t.Fatalf("%d was committed without Kafka", got)
		}
		away.Store(false)
		time.Sleep(2 * commitAgain) // of the test's own clock
		if got := committed.Load(); got != 8 {
			t.Errorf("%d is committed", got)
		}
	})
}

// A partition that is another's is not committed again and again.
func TestACommitOfALostPartitionIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		c := NewCommits(t.Context(), func(context.Context, int64) error {
			tries++
			return topic.ErrExpelled
		})
		c.Note(7)
		synctest.Wait()
		c.Close()
		if tries != 1 || !c.Expelled() {
			t.Errorf("%d tries, expelled: %v", tries, c.Expelled())
		}
	})
}
