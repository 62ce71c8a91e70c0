package daemon

import (
	"os"
	"runtime"
	"runtime/metrics"
	"testing"

	"weir/test/wait"
)

func TestGarbagePercent(t *testing.T) {
	for live, want := range map[uint64]int{0: 100, 32 << 20: 100, 50 << 20: 64, 64 << 20: 50, 96 << 20: 33, 1 << 40: 33} {
		if got := garbagePercent(live); got != want {
			t.Errorf("%d MiB: %d, want %d", live>>20, got, want)
		}
	}
}

// The garbage of a process with much in use is bounded, and less of it when less is.
func TestGarbageIsBounded(t *testing.T) {
	t.Setenv("GOGC", "") // puts it back at the end
	_ = os.Unsetenv("GOGC")
	collect := func() (percent, live uint64) {
		runtime.GC()
		sample := []metrics.Sample{{Name: "/gc/gogc:percent"}, {Name: liveHeapBytes}}
		metrics.Read(sample)
		return sample[0].Value.Uint64(), sample[1].Value.Uint64()
	}
	const size = 200 << 20
	_, before := collect() // what other tests have in use
	stop := boundGarbage()
	defer stop()
	kept := make([]byte, size)
	wait.Until(t, "a third of garbage", func() bool {
		percent, _ := collect()
		return percent == leastPercent
	})
	runtime.KeepAlive(kept) // until here
	wait.Until(t, "more garbage, if other tests use little", func() bool {
		percent, live := collect()
		return live < before+size/2 && percent == uint64(garbagePercent(live))
	})
	stop()
	if got, _ := collect(); got != usualPercent {
		t.Errorf("it is %d afterwards", got)
	}
}
