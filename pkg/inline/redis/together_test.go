package redis

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"weir/internal/store/redis/redistest"
	"weir/pkg/inline/stored"
)

func firstCommit(key int) *stored.Commit {
	return &stored.Commit{Group: uint16(key), At: 1, Slack: 1 << 60, Changes: []stored.Change{{Name: fmt.Sprint(key), Next: 7, Expires: 1 << 52}}}
}

// Commits of one moment are each done once, also while Redis does not know the script.
func TestManyAtOnce(t *testing.T) {
	server := redistest.Start(t)
	b := open(t, Options{URL: "redis://" + server.Addr})
	within, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for round := range 2 {
		server.Client.ScriptFlush(ctx)
		var running sync.WaitGroup
		for key := range 3 * mostTogether {
			running.Go(func() {
				if r, err := b.Commit(within, firstCommit(key)); err != nil || r.Done != (round == 0) || round > 0 && r.Cells[0].Version != 7 {
					t.Errorf("round %d, key %d: %+v, %v", round, key, r, err)
				}
			})
		}
		running.Wait()
	}
}

// Each run of a round trip has its own answer, and the round trip has the patience of the most patient.
func TestARoundTrip(t *testing.T) {
	server := redistest.Start(t)
	b := open(t, Options{URL: "redis://" + server.Addr})
	resume := server.Pause()
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	long, cancelLong := context.WithTimeout(ctx, time.Minute)
	defer cancelLong()

	all := make([]*run, 3)
	for i := range all {
		all[i] = &run{keys: []string{b.key(1, fmt.Sprint(i))}, args: []any{1, 1 << 60, "", []byte("7654321x"), 1 << 52}, done: make(chan struct{})}
		all[i].deadline, _ = long.Deadline()
	}
	all[1].keys = nil // of no key, as no commit is
	b.together.rounds.Go(func() { b.together.send(all) })
	if _, err := b.Commit(short, firstCommit(9)); err == nil {
		t.Error("while Redis hangs a commit is done")
	}
	resume()
	for i, one := range all {
		<-one.done
		if said, err := one.reply.Slice(); err != nil || said[0] != int64(1) {
			t.Errorf("run %d: %v, %v", i, said, err)
		}
	}
}

// While Redis hangs, each caller waits as long as it wants to, whomever it shares a round trip with.
func TestCallersWaitAsLongAsTheyWant(t *testing.T) {
	server := redistest.Start(t)
	b := open(t, Options{URL: "redis://" + server.Addr})
	resume := server.Pause()
	var patient, impatient sync.WaitGroup
	for key := range 100 {
		running, patience := &patient, time.Minute
		if key%2 == 0 {
			running, patience = &impatient, 20*time.Millisecond
		}
		running.Go(func() {
			within, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			if _, err := b.Commit(within, firstCommit(key)); err == nil == (key%2 == 0) {
				t.Errorf("key %d: %v", key, err)
			}
		})
	}
	impatient.Wait()
	resume()
	patient.Wait()
}
