package hyperloglog

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Estimates have the error that Error says, at every number of values, and no bias.
func TestTheErrorOfEstimates(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, registers := range []int{1 << 10, 1 << 13} {
		for _, values := range []int{1, 20, 1000, 5000, 20_000, 100_000} {
			squares, mean, times := 0.0, 0.0, 60.0
			for range int(times) {
				r := make(Registers, registers)
				for range values {
					r.Add(random.Uint64())
				}
				off := r.Estimate()/float64(values) - 1
				squares += off * off / times
				mean += off / times
			}
			if standard := math.Sqrt(squares); standard > Error(registers)*1.3 || math.Abs(mean) > Error(registers)*0.5 {
				t.Errorf("%d registers, %d values: the standard error is %.2f %%, the mean %.2f %%", registers, values, standard*100, mean*100)
			}
		}
	}
}

// Merged registers have the values of both, and bytes are read as they were written.
func TestMergeAndBytes(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, values := range []int{0, 1, 40, 3000} {
		one, other, both := make(Registers, 1<<10), make(Registers, 1<<10), make(Registers, 1<<10)
		for i := range values {
			hash := random.Uint64() >> random.IntN(64)
			both.Add(hash)
			if i%3 < 2 {
				one.Add(hash)
			}
			if i%3 > 0 {
				other.Add(hash)
			}
		}
		one.Merge(other)
		if !slices.Equal(one, both) {
			t.Errorf("%d values: what is merged differs", values)
		}

		written := one.Append([]byte{7})
		back := make(Registers, 1<<10)
		if rest, ok := back.Read(written[1:]); !ok || len(rest) > 0 || !slices.Equal(back, one) || !bytes.Equal(back.Append([]byte{7}), written) {
			t.Errorf("%d values are read as others", values)
		}
		if _, ok := make(Registers, 1<<10).Read(written[1 : len(written)-1]); ok {
			t.Errorf("%d values: bytes that are cut off are read", values)
		}
	}
}
