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
	if percent, set := os.LookupEnv("GOGC"); set {
		t.Skip("GOGC is ", percent)
	}
	percent := func() uint64 {
		runtime.GC()
		sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	stop := boundGarbage()
	defer stop()
	kept := make([]byte, 200<<20)
	wait.Until(t, "a third of garbage", func() bool { return percent() == leastPercent })
	runtime.KeepAlive(kept) // until here
	wait.Until(t, "more garbage", func() bool { return percent() > leastPercent })
	stop()
	if got := percent(); got != usualPercent {
		t.Errorf("it is %d afterwards", got)
	}
}
