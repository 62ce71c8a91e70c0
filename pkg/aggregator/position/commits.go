package position

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/topic"
)

const (
	commitPatience = 5 * time.Second        // for one commit
	commitAgain    = 500 * time.Millisecond // between tries
)

// Commits tells the group how far a partition is counted. Only tools look at that: where to go on stands in the
// store. It has a goroutine, so that a coordinator that is away holds up nothing.
type Commits struct {
	commit func(ctx context.Context, offset int64) error
	wanted chan int64 // holds the newest
	gone   atomic.Bool
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

// NewCommits starts the goroutine. Close or Finish ends it.
func NewCommits(ctx context.Context, commit func(context.Context, int64) error) *Commits {
	c := &Commits{commit: commit, wanted: make(chan int64, 1)}
	ctx, c.cancel = context.WithCancel(ctx)
	c.ended.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case offset := <-c.wanted:
				c.until(ctx, offset)
			}
		}
	})
	return c
}

// until commits, again and again where Kafka is away, until that is done, a newer offset is to be committed, or the
// partition is another's: on a quiet site the next one comes with the next hit, and tools show a lag until then.
func (c *Commits) until(ctx context.Context, offset int64) {
	for !c.try(ctx, offset) && !c.Expelled() {
		select {
		case <-ctx.Done():
			return
		case offset = <-c.wanted:
		case <-time.After(commitAgain):
		}
	}
}

// try commits, and says whether the partition may still be ours.
func (c *Commits) try(ctx context.Context, offset int64) bool {
	ctx, cancel := context.WithTimeout(ctx, commitPatience)
	defer cancel()
	err := c.commit(ctx, offset)
	if errors.Is(err, topic.ErrExpelled) {
		c.gone.Store(true)
	}
	return err == nil
}

// Note has an offset committed, soon; of several the newest. One goroutine calls it.
func (c *Commits) Note(offset int64) {
	select {
	case <-c.wanted:
	default:
	}
	c.wanted <- offset
}

// Confirm commits until that says whether the partition is still ours.
func (c *Commits) Confirm(ctx context.Context, offset int64) bool {
	for ctx.Err() == nil && !c.Expelled() {
		if c.try(ctx, offset) {
			return true
		}
	}
	return false
}

// Finish ends the goroutine and commits once more.
func (c *Commits) Finish(ctx context.Context, offset int64) {
	c.Close()
	c.try(ctx, offset)
}

// Expelled reports whether the group has gone on without us.
func (c *Commits) Expelled() bool { return c.gone.Load() }

// Close ends the goroutine.
func (c *Commits) Close() {
	c.cancel()
	c.ended.Wait()
}
