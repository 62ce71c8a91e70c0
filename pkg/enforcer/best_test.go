package enforcer

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestBestKeepsTheFirstOfAll(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		b := best[int]{most: 1 + random.IntN(10), compare: cmp.Compare[int]}
		all := make([]int, random.IntN(50))
		for i := range all {
			all[i] = random.IntN(30)
			if b.add(all[i]); len(b.kept) > 2*b.most {
				t.Fatalf("%d values are kept, where %d are wanted", len(b.kept), b.most)
			}
		}

		slices.Sort(all)
		want := all[:min(b.most, len(all))]
		if got, dropped := b.sorted(); !slices.Equal(got, want) || dropped != len(all)-len(want) {
			t.Fatalf("the first %d of %v are %v, and %d others", b.most, all, got, dropped)
		}
	}
}
