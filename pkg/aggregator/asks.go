package aggregator

import (
	"context"
	"fmt"
	"time"
)

const (
	askPatience = 5 * time.Second
	mostAnswers = 10 * time.Millisecond
)

// Questions are run by the goroutine of a partition, whenever it waits.
type questions struct {
	number int // of the partition
	asked  chan func(ctx context.Context)
}

// ask has the partition's goroutine look for something, and waits for it.
func ask[T any](ctx context.Context, q *questions, look func(context.Context) (T, error)) (found T, err error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	answer := make(chan func() (T, error), 1)
	select {
	case q.asked <- func(of context.Context) {
		found, err := look(of)
		answer <- func() (T, error) { return found, err }
	}:
		select {
		case answered := <-answer:
			return answered()
		case <-ctx.Done():
		}
	case <-ctx.Done():
	}
	return found, fmt.Errorf("partition %d does not answer: %w", q.number, ctx.Err())
}

// answerNow answers what is asked now. It answers no more after a short while, because others may ask all the time.
func (q *questions) answerNow(ctx context.Context) {
	for began := time.Now(); time.Since(began) < mostAnswers; {
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
