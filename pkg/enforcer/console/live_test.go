package console_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"weir/test/wait"
)

// Many live lists read changes in turns. Each decodes thousands of entries when many keys are blocked at once, and all
// of them together once took gigabytes.
func TestLiveListsTakeTurns(t *testing.T) {
	turns := max(1, runtime.GOMAXPROCS(0)/2)
	s := newStand(t, false)
	var reading, most, asked atomic.Int64
	s.config.Now = func() time.Time {
		at := reading.Add(1)
		defer reading.Add(-1)
		for old := most.Load(); at > old && !most.CompareAndSwap(old, at); old = most.Load() {
		}
		asked.Add(1)
		time.Sleep(20 * time.Millisecond) // the others ask meanwhile
		return time.Now()
	}
	s.start()
	for range 4*turns + 4 {
		_, stop := s.follow("")
		defer stop()
	}
	before := asked.Load()
	for i := range int64(20) {
		if err := s.set.Apply(time.Now().UnixMilli(), changeOf(t, i+1, ofIP("203.0.113.1"))); err != nil {
			t.Fatal(err)
		}
	}
	wait.Until(t, "the lists have read", func() bool { return asked.Load() > before+int64(8*turns+8) })
	if got := most.Load(); got > int64(turns)+1 { // and the sums are counted, for all at once
		t.Errorf("%d live lists read at the same time, want %d", got-1, turns)
	}
}
