package tally

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
)

// Entries take the place of others that have refused much. Meanwhile they never seem to have refused that much too.
func TestAnEntryTakesAPlaceWithoutItsCount(t *testing.T) {
	counts := New(time.UnixMilli(someMinute))
	const rounds, much = 400, 100
	var ids []string // of one set
	for i := 0; len(ids) < rounds; i++ {
		if id := fmt.Sprint("entry ", i); xxhash.Sum64String(id)%uint64(len(counts.entries.sets)) == 0 {
			ids = append(ids, id)
		}
	}

	var reading sync.WaitGroup
	var turn atomic.Int64
	stop := make(chan struct{})
	for range 2 {
		reading.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				n := turn.Load()
				id := ids[n]
				if n%2 == 0 {
					continue
				}
				if f := counts.Of([]byte(id), someMinute+rounds*1000); f.Refused > 1 {
					t.Errorf("%s has refused once, not %d times", id, f.Refused)
					return
				}
			}
		})
	}
	for again := range 3 {
		for n, id := range ids {
			turn.Store(int64(n))
			times := 1
			if n%2 == 0 {
				times = much
			}
			for range times {
				counts.Refused(someMinute+int64(again*rounds+n)*1000, nil, id)
			}
		}
	}
	close(stop)
	reading.Wait()
}
