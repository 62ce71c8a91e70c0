package daemon

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// Go lets garbage grow to as much as what is in use. A part with some hundred megabytes of windows would take twice
// that. Its garbage may grow to a third of it: the collector then runs more often, which costs a backlog some percent
// of the processor time of counting, and live traffic next to nothing.
const (
	spareGarbage  = 32 << 20 // bytes that garbage may have at least, if as much is in use
	leastPercent  = 33       // of what is in use, that garbage may have at least
	usualPercent  = 100
	liveHeapBytes = "/gc/heap/live:bytes"
)

// boundGarbage bounds the garbage of the process, unless the environment has GOGC.
func boundGarbage() (stop func()) {
	if _, set := os.LookupEnv("GOGC"); set {
		return func() {}
	}

	var mu sync.Mutex
	stopped := false
	var collected func(percent int)
	collected = func(percent int) {
		mu.Lock()
		defer mu.Unlock()
		if stopped {
			return
		}
		sample := []metrics.Sample{{Name: liveHeapBytes}}
		metrics.Read(sample)
		if next := garbagePercent(sample[0].Value.Uint64()); next != percent {
			debug.SetGCPercent(next)
			percent = next
		}
		runtime.AddCleanup(new(*byte), collected, percent) // after the next collection
	}
	collected(usualPercent)
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		debug.SetGCPercent(usualPercent)
	}
}

// garbagePercent is how much garbage there may be, of so many bytes that are in use.
func garbagePercent(live uint64) int {
	return int(min(max(100*spareGarbage/max(live, 1), leastPercent), usualPercent))
}
