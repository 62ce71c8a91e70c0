package aggregator

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/kafka"
)

// commitPatience is how long one commit may take.
const commitPatience = 5 * time.Second

// A commits tells the group how far a partition is counted. Only tools look at that: where to go on stands in the
// store. It has a goroutine, so that a coordinator that is away holds up nothing.
type commits struct {
	commit func(ctx context.Context, offset int64) error
	wanted chan int64 // holds the newest
	gone   atomic.Bool
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

func newCommits(ctx context.Context, commit func(context.Context, int64) error) *commits {
	c := &commits{commit: commit, wanted: make(chan int64, 1)}
	ctx, c.cancel = context.WithCancel(ctx)
	c.ended.Go(func() { c.run(ctx) })
	return c
}

func (c *commits) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case offset := <-c.wanted:
			c.until(ctx, offset)
		}
	}
}

// until commits, again and again where Kafka is away, until that is done, a newer offset is to be committed, or the
// partition is another's: on a quiet site the next one comes with the next hit, and tools show a lag until then.
func (c *commits) until(ctx context.Context, offset int64) {
	for !c.try(ctx, offset) && !c.expelled() {
		select {
		case <-ctx.Done():
			return
		case offset = <-c.wanted:
		case <-time.After(tryAgain):
		}
	}
}

// try commits, and says whether the partition may still be ours.
func (c *commits) try(ctx context.Context, offset int64) bool {
	ctx, cancel := context.WithTimeout(ctx, commitPatience)
	defer cancel()
	err := c.commit(ctx, offset)
	if errors.Is(err, kafka.ErrExpelled) {
		c.gone.Store(true)
	}
	return err == nil
}

// note has an offset committed, soon; of several the newest. One goroutine calls it.
func (c *commits) note(offset int64) {
	select {
	case <-c.wanted:
	default:
	}
	c.wanted <- offset
}

// confirm commits until that says whether the partition is still ours.
func (c *commits) confirm(ctx context.Context, offset int64) bool {
	for ctx.Err() == nil && !c.expelled() {
		if c.try(ctx, offset) {
			return true
		}
	}
	return false
}

// last ends the goroutine and commits once more.
func (c *commits) last(ctx context.Context, offset int64) {
	c.close()
	c.try(ctx, offset)
}

// expelled says that the group has gone on without us.
func (c *commits) expelled() bool { return c.gone.Load() }

func (c *commits) close() {
	c.cancel()
	c.ended.Wait()
}
