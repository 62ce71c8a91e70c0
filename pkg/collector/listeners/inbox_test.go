package listeners

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"weir/pkg/collector/pipeline"
)

func TestInboxIsBounded(t *testing.T) {
	b := newInbox(100)
	if ok, _ := b.try(make([]byte, 1000), pipeline.Counted); !ok {
		t.Error("a record that is larger than an empty inbox has no room")
	}
	if got := b.depth(); got != 1016 {
		t.Errorf("%v bytes wait", got)
	}
	ok, room := b.try([]byte("x"), pipeline.Counted)
	if ok {
		t.Error("a full inbox has room")
	}
	if got := b.take(); len(got.ends) != 1 || len(got.bytes) != 1000 {
		t.Errorf("took %d records", len(got.ends))
	}
	select {
	case <-room:
	default:
		t.Error("nobody was told that there is room")
	}
	for range 5 {
		if ok, _ := b.try([]byte("1234"), pipeline.Counted); !ok {
			t.Error("five records of 20 bytes have no room in 100")
		}
	}
	if ok, _ := b.try(nil, pipeline.Counted); ok {
		t.Error("a record of nothing takes nothing")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.put(ctx, []byte("x"), pipeline.Counted); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// The records of several goroutines are all taken, those of each goroutine in its order.
func TestInboxKeepsEachOnesOrder(t *testing.T) {
	const each = 5000
	b := newInbox(1000)
	var bringing sync.WaitGroup
	for who := range 4 {
		bringing.Go(func() {
			for i := range each {
				b.put(t.Context(), fmt.Appendf(nil, "%d %d", who, i), pipeline.Reason(who))
			}
		})
	}
	next := [4]int{}
	for next != [4]int{each, each, each, each} {
		<-b.more
		taken := b.take()
		taken.each(func(record []byte, why pipeline.Reason) error {
			if want := fmt.Sprintf("%d %d", why, next[why]); string(record) != want {
				t.Fatalf("took %q, want %q", record, want)
			}
			next[why]++
			return nil
		})
	}
	bringing.Wait()
}
