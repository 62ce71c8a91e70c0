package past

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"weir/internal/database"
	"weir/pkg/blocklist"
)

// CountBlocks returns how many blocks began since a time (Unix milliseconds), by the rule; those by hand are of the rule
// manual. It reads the place of each, which takes about a second for three million.
func (x *Index) CountBlocks(ctx context.Context, since int64) (map[string]int64, error) {
	in := x.current.Load()
	if in == nil {
		return nil, ErrNotReady
	}
	return database.Do(ctx, in.db, func(db *pebble.DB) (map[string]int64, error) {
		kinds := in.kinds.Load()
		if kinds == nil {
			return nil, ErrNotReady
		}
		counts := map[string]int64{}
		for number, of := range kinds.all {
			byHand := of.event == blocklist.EventOrdered && of.order == blocklist.OrderBlock.String()
			if number == 0 || of.event != blocklist.EventBlocked && !byHand {
				continue
			}
			n, err := countFrom(ctx, db, kindList(uint64(number)), since)
			if err != nil {
				return nil, err
			}
			counts[of.rule] += n
		}
		return counts, nil
	})
}

// countFrom counts the places of a list from a time on.
func countFrom(ctx context.Context, db *pebble.DB, list []byte, since int64) (n int64, err error) {
	first := place{at: since}.append(append([]byte{}, list...))
	last := place{at: maxAt + 1}.append(append([]byte{}, list...))
	it, err := db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: first, UpperBound: last})
	if err != nil {
		return 0, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		if n++; n%4096 == 0 && ctx.Err() != nil {
			return 0, errors.Join(ctx.Err(), it.Close())
		}
	}
	return n, errors.Join(it.Error(), it.Close())
}
