package windows

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/internal/store"
)

// callPatience is how long a call to the store may take.
const callPatience = 5 * time.Second

// An Owned partition of the store is one that we have taken. Every call says whether it still is ours: with
// store.ErrFenced it is not, or the store has lost writes, and all that was read from it may be wrong.
type Owned struct {
	Store     store.Store
	Partition int
	Fence     store.Fence
	unsure    bool // the last write failed, and may have been done all the same
}

// Take makes the partition ours: a former owner cannot write from then on.
func (o *Owned) Take(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	o.Fence, err = o.Store.Take(ctx, o.Partition)
	o.unsure = false
	return err
}

// Write does all changes, or none. Where an error leaves open which of the two, the next call finds it out.
func (o *Owned) Write(ctx context.Context, changes []store.Change) error {
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	next, err := o.Store.Write(ctx, o.Partition, o.Fence, changes)
	if o.unsure && errors.Is(err, store.ErrFenced) && next == o.Fence.Next() {
		o.Fence = next // the write before was done, and only we could have
		next, err = o.Store.Write(ctx, o.Partition, o.Fence, changes)
	}

	switch {
	case err == nil:
		o.Fence, o.unsure = next, false
	case !errors.Is(err, store.ErrFenced):
		o.unsure = true
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

// Scan returns some pairs of a space.
func (o *Owned) Scan(ctx context.Context, space store.Space, from store.Cursor, pairs int) (store.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	page, err := o.Store.Scan(ctx, o.Partition, space, from, pairs)
	if err != nil {
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
