package window

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// bitByBit is the Rice code of numbers, as its description reads.
func bitByBit(mean int64, numbers []int64) []byte {
	low := 0
	for mean>>(low+1) > 0 {
		low++
	}
	code, used := []byte{byte(low)}, 0
	put := func(bit int64) {
		if used%8 == 0 {
			code = append(code, 0)
		}
		code[len(code)-1] |= byte(bit << (used % 8))
		used++
	}
	for _, v := range numbers {
		for range v >> low {
			put(1)
		}
		put(0)
		for i := range low {
			put(v >> i & 1)
		}
	}
	return code
}

func TestRiceCode(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		mean := r.Int64N(1 << r.IntN(timeBits+1))
		numbers := make([]int64, r.IntN(40))
		for i := range numbers {
			numbers[i] = min(int64(r.ExpFloat64()*float64(mean+1)*float64(1+r.IntN(20))), MaxTime)
		}
		w := newRiceWriter(nil, mean)
		for _, v := range numbers {
			w.write(v)
		}
		code := w.close()
		if want := bitByBit(mean, numbers); !bytes.Equal(code, want) {
			t.Fatalf("%d around %d are\n%x, want\n%x", numbers, mean, code, want)
		}
		reader := newRiceReader(append(code, 0xff))
		for _, v := range numbers {
			if got := reader.read(); got != v || reader.bad {
				t.Fatalf("%d is read as %d", v, got)
			}
		}
		if rest := reader.rest(); len(rest) != 1 {
			t.Fatalf("%d bytes follow", len(rest))
		}
	}
}
