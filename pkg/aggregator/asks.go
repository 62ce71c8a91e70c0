package aggregator

import (
	"context"
	"fmt"
	"time"
)

const askPatience = 5 * time.Second

// Questions are run by the goroutine of a partition, whenever it waits.
type questions struct {
	number int // of the partition
	asked  chan func(ctx context.Context)
}

// ask has the partition's goroutine run something, and waits for it.
func (q *questions) ask(ctx context.Context, look func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	answered := make(chan error, 1)
	select {
	case q.asked <- func(of context.Context) { answered <- look(of) }:
	case <-ctx.Done():
		return fmt.Errorf("partition %d does not answer: %w", q.number, ctx.Err())
	}

	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return fmt.Errorf("partition %d does not answer: %w", q.number, ctx.Err())
	}
}

// answerNow answers what is asked now.
func (q *questions) answerNow(ctx context.Context) {
	for {
		select {
		case look := <-q.asked:
			look(ctx)
		default:
			return
		}
	}
}

// answerUntil answers until something is done, also when the context ends before.
func (q *questions) answerUntil(ctx context.Context, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case look := <-q.asked:
			look(ctx)
		}
	}
}

// answerFor answers for a time, until the context ends or until something is done. It reports whether it was done.
func (q *questions) answerFor(ctx context.Context, d time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-done:
			return true
		case look := <-q.asked:
			look(ctx)
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// pause waits, and answers meanwhile.
func (q *questions) pause(ctx context.Context, d time.Duration) { q.answerFor(ctx, d, nil) }
