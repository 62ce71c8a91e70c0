package redis

import (
	"context"
	"runtime"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

const (
	// mostTogether bounds the commits of one round trip.
	mostTogether = 128
	// roundTrips is how many are under way. After longestHold, as where Redis is slow, there are more.
	roundTrips  = 1
	longestHold = time.Millisecond
)

// A together runs a script for many callers, with one round trip for those that come while others are under way. It
// starts a goroutine for each round trip of more than one caller, and rounds has these.
type together struct {
	client *goredis.Client
	script *goredis.Script
	rounds sync.WaitGroup
	places chan struct{} // of round trips that are under way

	mu      sync.Mutex
	waiting []*run
	begun   bool // the first of those that wait will send them
}

// A run of the script. It belongs to its round until done is closed.
type run struct {
	deadline time.Time
	keys     []string
	args     []any
	reply    *goredis.Cmd
	done     chan struct{}
}

// run runs the script, and returns when the context is over.
func (t *together) run(ctx context.Context, keys []string, args []any) ([]any, error) {
	own := &run{keys: keys, args: args}
	deadline, bounded := ctx.Deadline()
	if !bounded {
		return t.script.Run(ctx, t.client, keys, args...).Slice()
	}
	own.deadline, own.done = deadline, make(chan struct{})
	switch all, placed := t.collect(own); {
	case len(all) == 1 && all[0] == own:
		defer t.leave(placed)
		return t.script.Run(ctx, t.client, keys, args...).Slice()
	case len(all) > 0:
		t.rounds.Go(func() {
			defer t.leave(placed)
			t.send(all)
		})
	default:
		t.leave(placed)
	}

	select {
	case <-own.done:
		return own.reply.Slice()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// collect adds a run to those that wait. The first of them waits for a place, and returns all.
func (t *together) collect(own *run) (all []*run, placed bool) {
	t.mu.Lock()
	t.waiting = append(t.waiting, own)
	if t.begun && len(t.waiting) < mostTogether {
		t.mu.Unlock()
		return nil, false
	}
	if !t.begun {
		t.begun = true
		t.mu.Unlock()
		placed = t.enter()
		t.mu.Lock()
	}
	defer t.mu.Unlock()
	all, t.waiting, t.begun = t.waiting, nil, false
	return all, placed
}

// enter waits for a place, but not for long. It reports whether there was one.
func (t *together) enter() bool {
	runtime.Gosched() // others may come meanwhile
	select {
	case t.places <- struct{}{}:
		return true
	default:
	}
	hold := time.NewTimer(longestHold)
	defer hold.Stop()
	select {
	case t.places <- struct{}{}:
		return true
	case <-hold.C:
		return false
	}
}

func (t *together) leave(placed bool) {
	if placed {
		<-t.places
	}
}

// send makes a round trip.
func (t *together) send(all []*run) {
	last := all[0].deadline
	for _, one := range all {
		if one.deadline.After(last) {
			last = one.deadline
		}
	}
	ctx, cancel := context.WithDeadline(context.Background(), last)
	defer cancel()

	pipe := t.client.Pipeline()
	for _, one := range all {
		one.reply = t.script.EvalSha(ctx, pipe, one.keys, one.args...)
	}
	_, err := pipe.Exec(ctx)
	_ = err // each reply has its own
	for _, one := range all {
		if goredis.HasErrorPrefix(one.reply.Err(), "NOSCRIPT") {
			one.reply = t.script.Eval(ctx, t.client, one.keys, one.args...)
		}
		close(one.done)
	}
}
