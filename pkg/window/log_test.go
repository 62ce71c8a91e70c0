package window

import (
	"fmt"
	"testing"
	"time"
)

// A cell counts at most as many hits as a limit can ask for, and sums stay within their bits, whatever hits cost.
func TestSumsStayWithinTheirBits(t *testing.T) {
	for _, cost := range []int64{1, 1000, 300_000, narrowHits + 1, narrowHits + 2, maxHits} {
		sh := newShape(&Config{Remember: minRemember}, 1, 1, time.Hour.Milliseconds(), narrowHits)
		var l log
		for slot := int64(1); slot < 10_000; slot++ {
			i := sh.add(&l, slot, slot, cost)
			if i != sh.len(l)-1 || sh.slot(l, i) != slot || sh.hits(l, slot) != min(cost, narrowHits+1) {
				t.Fatalf("slot %d: cell %d of %d is of slot %d and counts %d", slot, i, sh.len(l), sh.slot(l, i), sh.hits(l, slot))
			}
			if i > 0 && sh.sum(l, i) <= sh.sum(l, i-1) {
				t.Fatalf("slot %d: the sum is %d after %d", slot, sh.sum(l, i), sh.sum(l, i-1))
			}
		}
	}
}

// A log keeps the cells that it must, and never takes more memory than for a quarter more, whatever comes late or
// expires. Making room moves only a few cells per hit.
func TestLogsKeepWithinTheirMemory(t *testing.T) {
	for _, cells := range []int{256, 257, 258, 259, 1000, 1001, 4096, 4099, 10_007, 65_536, 65_537, 1 << 20} {
		for _, largest := range []int64{1000, narrowHits + 1} {
			for _, matter := range []int{50, 90, 100, 110, 130, 1000} { // in percent of cells: how many have not expired
				if cells > 100_000 && matter < 1000 {
					continue
				}
				t.Run(fmt.Sprintf("%d/%d/%d%%", cells, largest, matter), func(t *testing.T) {
					keepsWithinMemory(t, cells, largest, matter)
				})
			}
		}
	}
}

func keepsWithinMemory(t *testing.T, cells int, largest int64, matter int) {
	t.Helper()
	const gap = 10 // milliseconds between hits, on average
	r := random(t)
	keep := int64(cells) * gap * int64(matter) / 100
	sh := newShape(&Config{Remember: cells}, 1, 1, keep, largest)

	var l, old log
	var made, moved, most int
	for newest := int64(someTime); made < 3*cells; {
		slot := newest - r.Int64N(10*gap)
		if r.IntN(3) > 0 {
			slot = newest + 1 + r.Int64N(2*gap)
		}
		if r.IntN(cells) == 0 {
			slot = newest + r.Int64N(keep)
		}

		full := len(l)+1+sh.wide > cap(l)
		if full {
			old = append(old[:0], l...)
		}
		n := sh.len(l)
		newest = max(newest, slot)
		sh.add(&l, slot, newest, 1)
		most = max(most, cap(l))
		if !full {
			made += sh.len(l) - n
			continue
		}

		// The cell may be new, and only cells that need not be kept may have gone.
		if j := sh.after(old, slot-1); j == n || sh.slot(old, j) != slot {
			made++
			moved += sh.len(l)
			if gone := n + 1 - sh.len(l); gone > max(0, n-cells, sh.startingAfter(old, newest-keep)) {
				t.Fatalf("%d of %d cells have gone", gone, n)
			}
		}
	}

	if allowed := BytesOfHit(largest) * int64(cells); int64(8*most) > allowed {
		t.Errorf("%d bytes are taken, %d are allowed", 8*most, allowed)
	}
	if moved > 6*made {
		t.Errorf("%d cells have moved for %d new ones", moved, made)
	}
}
