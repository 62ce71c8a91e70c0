package disk

import (
	"context"
	"time"
)

// syncAfter is how long a write may be in memory alone: pebble keeps the end of its log there, up to 32 KiB, until more
// comes or someone syncs, and on a quiet site nobody does for hours.
const syncAfter = time.Second

// syncBehind syncs what is written, until the store is closed.
func (s *Store) syncBehind() {
	for {
		select {
		case <-s.closing:
			return
		case <-s.written:
		}
		select {
		case <-s.closing: // closing syncs
			return
		case <-time.After(syncAfter):
		}
		_ = s.Sync(context.Background()) // a disk that fails breaks the store, and the next call says so
	}
}
