package tally

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

const someMinute = 29_000_000 * minuteMilli

func TestMinutesAreCounted(t *testing.T) {
	counts := New(time.UnixMilli(someMinute))
	rule := counts.Rule("per-ip")
	for minute := range int64(130) {
		now := int64(someMinute) + minute*minuteMilli
		for range minute + 1 {
			counts.Checked(now)
		}
		counts.Refused(now, rule, "")
	}

	now := int64(someMinute) + 129*minuteMilli + minuteMilli/2
	if checks, refused := counts.Totals(); checks != 130*131/2 || refused != 130 || rule.Refused() != 130 {
		t.Errorf("%d checks, %d refused, %d by the rule", checks, refused, rule.Refused())
	}
	checks, refused := counts.Hour(now)
	for i := range checks {
		if checks[i] != int64(70+i) || refused[i] != 1 {
			t.Fatalf("minute %d has %d checks, %d refused", i, checks[i], refused[i])
		}
	}
	if checks, _ := counts.LastMinute(now); checks != 130+129/2 {
		t.Errorf("%d checks in the last minute", checks)
	}

	// After a pause of an hour the minutes are empty, and the totals stay.
	now += 61 * minuteMilli
	if checks, _ := counts.Hour(now); checks != [60]int64{} {
		t.Errorf("after a pause: %v", checks)
	}
	if checks, _ := counts.Totals(); checks != 130*131/2 {
		t.Errorf("after a pause: %d checks", checks)
	}
}

func TestEntriesThatRefusedLastAreKept(t *testing.T) {
	counts := New(time.UnixMilli(someMinute))
	const many = 100_000
	for i := range int64(many) {
		counts.Refused(someMinute+i*1000, nil, fmt.Sprint("entry ", i))
	}
	now := int64(someMinute + many*1000)
	kept := 0
	for i := range many {
		if f := counts.Of(fmt.Append(nil, "entry ", i), now); f != (Figures{}) {
			kept++
			if f.Refused != 1 || f.Last != someMinute+int64(i)*1000 {
				t.Fatalf("entry %d: %+v", i, f)
			}
		}
	}
	if kept != 1<<14 {
		t.Errorf("%d are kept", kept)
	}
	missing := 0
	for i := many - 4000; i < many; i++ {
		if counts.Of(fmt.Append(nil, "entry ", i), now).Last == 0 {
			missing++
		}
	}
	if missing > 40 {
		t.Errorf("%d of the last 4000 entries have lost their place", missing)
	}
}

func TestRefusalsOfTheLastMinuteAreEstimated(t *testing.T) {
	counts := New(time.UnixMilli(someMinute))
	id := []byte("an entry")
	for i := range int64(120) { // one a second
		counts.Refused(someMinute+i*1000, nil, string(id))
	}
	for _, c := range []struct{ after, want int64 }{{119, 60}, {150, 30}, {180, 0}, {65536 * 60, 0}} {
		f := counts.Of(id, someMinute+c.after*1000)
		if f.LastMinute < c.want || f.LastMinute > c.want+1 {
			t.Errorf("after %d s: %d in the last minute, not %d", c.after, f.LastMinute, c.want)
		}
		if f.Refused != 120 || f.Last != someMinute+119_000 {
			t.Errorf("after %d s: %+v", c.after, f)
		}
	}
}

func TestGoroutinesCountTogether(t *testing.T) {
	counts := New(time.UnixMilli(someMinute))
	rule := counts.Rule("per-ip")
	counts.Refused(someMinute, rule, "entry") // it has its place
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 10_000 {
				counts.Checked(someMinute)
				counts.Refused(someMinute, rule, "entry")
			}
		})
	}
	all.Wait()
	checks, refused := counts.Totals()
	if f := counts.Of([]byte("entry"), someMinute); checks != 40_000 || refused != 40_001 || rule.Refused() != 40_001 || f.Refused != 40_001 || f.LastMinute != 40_001 {
		t.Errorf("%d checks, %d refused, %d by the rule, %+v", checks, refused, rule.Refused(), f)
	}
}

func TestCountingAllocatesNothing(t *testing.T) {
	counts := New(time.UnixMilli(someMinute))
	rule, now := counts.Rule("per-ip"), int64(someMinute)
	if n := testing.AllocsPerRun(1000, func() {
		now += 777
		counts.Checked(now)
		counts.Refused(now, rule, "0123456789abcdef")
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkChecked(b *testing.B) {
	counts := New(time.UnixMilli(someMinute))
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			counts.Checked(someMinute)
		}
	})
}

func BenchmarkRefused(b *testing.B) {
	counts := New(time.UnixMilli(someMinute))
	rule := counts.Rule("per-ip")
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			counts.Refused(someMinute, rule, "0123456789abcdef")
		}
	})
}
