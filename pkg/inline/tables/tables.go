// Package tables keeps the tables of a stored.Backend in SQL: it has them made or checked before the Backend is used, and
// swept from time to time. It also says when a statement is tried again.
//
// A Keeper has one goroutine, which Close waits for.
package tables

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"weir/internal/sleep"
)

const (
	retryAfter = time.Second
	sweepEvery = time.Minute
	// SweepPage is how many cells one step of a sweep looks at, and SweepPause the time between two.
	SweepPage  = 1000
	SweepPause = 10 * time.Millisecond
	// Patience is how long a connection is tried.
	Patience = 5 * time.Second
	// MostTries bounds how often a commit is tried that a database ended for the sake of others.
	MostTries = 10
)

// ErrMissing reports that tables are to be made by hand.
var ErrMissing = errors.New("the tables of inline limits are missing or old")

var errNewer = errors.New("the tables of inline limits are of a newer Weir")

var errStarting = errors.New("the database was not asked yet")

// A Keeper knows whether the tables are there.
type Keeper struct {
	cancel context.CancelFunc
	ended  chan struct{}

	mu     sync.Mutex
	why    error         // the last failure
	opened chan struct{} // closed while the tables are there
	isOpen bool
	wake   chan struct{} // receives when tables have gone
}

// Keep calls look now and from time to time. It is to make or check the tables, then to call ready, and then to sweep.
func Keep(look func(ctx context.Context, ready func()) error) *Keeper {
	ctx, cancel := context.WithCancel(context.Background())
	k := &Keeper{cancel: cancel, ended: make(chan struct{}), opened: make(chan struct{}), wake: make(chan struct{}, 1), why: errStarting}
	go func() {
		defer close(k.ended)
		k.run(ctx, look)
	}()
	return k
}

// Close ends the goroutine.
func (k *Keeper) Close() {
	k.cancel()
	<-k.ended
}

func (k *Keeper) run(ctx context.Context, look func(context.Context, func()) error) {
	for {
		next := sweepEvery
		if err := look(ctx, k.ready); err != nil {
			k.fail(err)
			next = retryAfter
		}
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
		case <-k.wake:
		case <-timer.C:
		}
		if timer.Stop(); ctx.Err() != nil {
			return
		}
	}
}

// Wait waits until the tables are there. It does not wait for tables that somebody has to make.
func (k *Keeper) Wait(ctx context.Context) error {
	k.mu.Lock()
	opened, isOpen, why := k.opened, k.isOpen, k.why
	k.mu.Unlock()
	if !isOpen && (errors.Is(why, ErrMissing) || errors.Is(why, errNewer)) {
		return why
	}
	select {
	case <-opened:
		return nil
	default:
	}
	select {
	case <-opened:
		return nil
	case <-ctx.Done():
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return fmt.Errorf("%w: %w", k.why, ctx.Err())
}

func (k *Keeper) ready() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.isOpen {
		k.isOpen = true
		close(k.opened)
	}
}

func (k *Keeper) fail(why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.why = why
}

// Missing reports that the tables are not there any more.
func (k *Keeper) Missing(why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.isOpen {
		return
	}
	k.why, k.isOpen, k.opened = why, false, make(chan struct{})
	sleep.Wake(k.wake)
}

// Pause waits a random moment before a further try. It reports false if there is none.
func Pause(ctx context.Context, try int) bool {
	if try >= MostTries {
		return false
	}
	return Sleep(ctx, rand.N(time.Duration(try)*time.Millisecond))
}

// Sleep waits, and reports false if the context ends before.
func Sleep(ctx context.Context, d time.Duration) bool {
	sleep.For(ctx, d)
	return ctx.Err() == nil
}
