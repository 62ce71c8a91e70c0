package window

import (
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
