package aggregator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/internal/store"
)

// callPatience is how long a call to the store may take.
const callPatience = 5 * time.Second

// An owned partition of the store is one that we have taken. Every call says whether it still is ours: with
// store.ErrFenced it is not, or the store has lost writes, and all that was read from it may be wrong.
type owned struct {
	store     store.Store
	partition int
	fence     store.Fence
	unsure    bool // the last write failed, and may have been done all the same
}

func (o *owned) take(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	o.fence, err = o.store.Take(ctx, o.partition)
	o.unsure = false
	return err
}

// write does all changes, or none; when that cannot be told, the next call finds it out.
func (o *owned) write(ctx context.Context, changes []store.Change) error {
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	next, err := o.store.Write(ctx, o.partition, o.fence, changes)
	if o.unsure && errors.Is(err, store.ErrFenced) && next == o.fence.Next() {
		o.fence = next // the write before was done, and only we could have
		next, err = o.store.Write(ctx, o.partition, o.fence, changes)
	}
	switch {
	case err == nil:
		o.fence, o.unsure = next, false
	case !errors.Is(err, store.ErrFenced):
		o.unsure = true
	}
	return err
}

func (o *owned) read(ctx context.Context, space store.Space, keys [][]byte) ([][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	values, found, err := o.store.Read(ctx, o.partition, space, keys)
	if err != nil {
		return nil, err
	}
	return values, o.check(found)
}

func (o *owned) scan(ctx context.Context, space store.Space, from store.Cursor, pairs int) (store.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	page, err := o.store.Scan(ctx, o.partition, space, from, pairs)
	if err != nil {
		return page, err
	}
	return page, o.check(page.Fence)
}

// check holds the fence that a reading found against ours.
func (o *owned) check(found store.Fence) error {
	switch {
	case found == o.fence:
		return nil
	case o.unsure && found == o.fence.Next():
		o.fence, o.unsure = found, false
		return nil
	}
	return fmt.Errorf("reading partition %d as %v, found %v: %w", o.partition, o.fence, found, store.ErrFenced)
}
