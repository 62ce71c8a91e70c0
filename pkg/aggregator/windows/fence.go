package windows

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"weir/internal/store"
)

const (
	callPatience = 5 * time.Second        // for a call to the store
	brief        = 200 * time.Millisecond // for a call that can go on while others do something else
)

// ErrSlow says that the store has not answered yet, and that the call goes on.
var ErrSlow = errors.New("the store takes long to answer")

// An Owned partition of the store is one that we have taken. Every call says whether it still is ours: with
// store.ErrFenced it is not, or the store has lost writes, and all that was read from it may be wrong.
type Owned struct {
	Store     store.Store
	Partition int
	Fence     store.Fence
	Calls     sync.WaitGroup // in goroutines of their own; the owner waits for them at its end
	Patience  time.Duration  // for windows that are read, before hits wait for them; 0 is 200 ms

	known  known
	unsure bool          // the last write failed, and may have been done all the same
	busy   chan struct{} // closed when the last call in a goroutine of its own ends
}

// Busy reports whether a call goes on in a goroutine of its own. No other may be made meanwhile.
func (o *Owned) Busy() bool {
	select {
	case <-o.busy:
		return false
	default:
		return o.busy != nil
	}
}

// apart makes a call in a goroutine of its own.
func (o *Owned) apart(call func()) {
	ended := make(chan struct{})
	o.busy = ended
	o.Calls.Go(func() {
		defer close(ended)
		call()
	})
}

// awaitAnswer keeps the store busy until it answers, after a call to it that took too long. So only the first of the
// calls to a store that hangs is waited for.
func (o *Owned) awaitAnswer(ctx context.Context, err error) {
	if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		return
	}
	o.apart(func() {
		for hangs := true; hangs; {
			ctx, cancel := context.WithTimeout(ctx, callPatience)
			_, _, err := o.Store.Read(ctx, o.Partition, store.Windows, nil)
			hangs = errors.Is(err, context.DeadlineExceeded)
			cancel()
		}
	})
}

// Take makes the partition ours: a former owner cannot write from then on.
func (o *Owned) Take(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	o.Fence, err = o.Store.Take(ctx, o.Partition)
	o.unsure, o.known = false, known{}
	return err
}

// Write does all changes, or none. Where an error leaves open which of the two, the next call finds it out.
func (o *Owned) Write(ctx context.Context, changes []store.Change) error {
	for _, change := range changes {
		if change.Space == store.Windows && change.Value != nil {
			o.known.add(change.Key)
		}
	}
	calling, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	next, err := o.Store.Write(calling, o.Partition, o.Fence, changes)
	if o.unsure && errors.Is(err, store.ErrFenced) && next == o.Fence.Next() {
		o.Fence = next // the write before was done, and only we could have
		next, err = o.Store.Write(calling, o.Partition, o.Fence, changes)
	}

	switch {
	case err == nil:
		o.Fence, o.unsure = next, false
	case !errors.Is(err, store.ErrFenced):
		o.unsure = true
		o.awaitAnswer(ctx, err)
	}

	return err
}

// Read returns the values of some keys, nil where there is none.
func (o *Owned) Read(ctx context.Context, space store.Space, keys [][]byte) ([][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	values, found, err := o.Store.Read(ctx, o.Partition, space, keys)
	if err != nil {
		return nil, err
	}
	return values, o.check(found)
}

// A reading is one that goes on in a goroutine of its own.
type reading struct {
	done     <-chan struct{}
	fence    store.Fence // ours when the reading began; writes of ours may follow before the values are awaited
	unsure   bool        // as of an Owned, then
	values   [][]byte
	found    store.Fence
	err      error
	panicked any
}

// begin begins to read the values of some keys.
func (o *Owned) begin(ctx context.Context, space store.Space, keys [][]byte) *reading {
	r := &reading{fence: o.Fence, unsure: o.unsure}
	o.apart(func() {
		defer func() { r.panicked = recover() }()
		ctx, cancel := context.WithTimeout(ctx, callPatience)
		defer cancel()
		r.values, r.found, r.err = o.Store.Read(ctx, o.Partition, space, keys)
	})
	r.done = o.busy
	return r
}

// await waits briefly for the values; with ErrSlow it may be called again.
func (o *Owned) await(r *reading) ([][]byte, error) {
	timer := time.NewTimer(cmp.Or(o.Patience, brief))
	defer timer.Stop()
	select {
	case <-r.done:
	case <-timer.C:
		return nil, ErrSlow
	}

	if r.panicked != nil {
		panic(r.panicked)
	}
	if r.err != nil {
		return nil, r.err
	}
	if r.fence != o.Fence && (r.found == r.fence || r.unsure && r.found == r.fence.Next()) {
		return r.values, nil // the partition was ours then, and a write of ours has found since that it still was
	}
	return r.values, o.check(r.found)
}

// Scan returns some pairs of a space.
func (o *Owned) Scan(ctx context.Context, space store.Space, from store.Cursor, pairs int) (store.Page, error) {
	calling, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	page, err := o.Store.Scan(calling, o.Partition, space, from, pairs)
	if err != nil {
		o.awaitAnswer(ctx, err)
		return page, err
	}
	return page, o.check(page.Fence)
}

// check holds the fence that a reading found against ours.
func (o *Owned) check(found store.Fence) error {
	switch {
	case found == o.Fence:
		return nil
	case o.unsure && found == o.Fence.Next():
		o.Fence, o.unsure = found, false
		return nil
	}
	return fmt.Errorf("reading partition %d as %v, found %v: %w", o.Partition, o.Fence, found, store.ErrFenced)
}
