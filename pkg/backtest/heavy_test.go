package backtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// Against exact counts: no number is too low, none is too high by more than its error, no error is greater than N/k, and
// each value that came more often than that is found.
func TestHeavySketchKeepsItsBounds(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 7))
		counters, values, number := 1+random.IntN(50), 1+random.IntN(300), random.IntN(5000)
		skew := rand.NewZipf(random, 1.01+random.Float64(), 1, uint64(values-1))
		sketch, exact := newHeavySketch(counters), map[string]int64{}
		for i := range number {
			value := fmt.Sprint(skew.Uint64())
			if seed%3 == 0 { // each value once, and then the heavy ones: the worst order
				value = fmt.Sprint(i % values)
			}
			exact[value]++
			sketch.add([]byte(value))
		}

		most := int64(number / counters)
		var sum int64
		for _, v := range sketch.heap {
			sum += v.count
			if v.count < exact[v.value] || v.count-v.most > exact[v.value] || v.most > most {
				t.Fatalf("seed %d: %q has %d, at most %d too high; it came %d times, and N/k is %d", seed, v.value, v.count, v.most, exact[v.value], most)
			}
		}
		if sum != int64(number) {
			t.Fatalf("seed %d: the counts are %d of %d values", seed, sum, number)
		}
		found := sketch.heaviest(counters)
		for value, n := range exact {
			if n > most && !slices.ContainsFunc(found, func(v *heavyValue) bool { return v.value == value }) {
				t.Errorf("seed %d: %q came %d times, and is not found among %d counters of %d values", seed, value, n, counters, number)
			}
			if len(exact) <= counters && sketch.of[value].count != n {
				t.Errorf("seed %d: %q has %d with room for all, want %d", seed, value, sketch.of[value].count, n)
			}
		}
		if !slices.IsSortedFunc(found, func(a, b *heavyValue) int { return int(b.count - a.count) }) || len(sketch.of) != len(sketch.heap) {
			t.Errorf("seed %d: not sorted, or %d values in the map and %d in the heap", seed, len(sketch.of), len(sketch.heap))
		}
	}
}
