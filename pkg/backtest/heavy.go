package backtest

import (
	"cmp"
	"slices"
)

// A heavySketch finds the heaviest values of a stream in bounded memory, by Space-Saving (Metwally, Agrawal and El Abbadi,
// 2005): a value without a counter takes over the one with the lowest count, and that count is its error. With k counters
// and N values, a count is never too low and at most N/k too high, and each value that came more than N/k times has a
// counter. With up to k different values all counts are exact. The order of the values alone decides the result.
type heavySketch struct {
	heap []*heavyValue // the lowest count first
	of   map[string]*heavyValue
}

// A heavyValue is a value with its counter.
type heavyValue struct {
	value string
	count int64 // never too low
	most  int64 // by at most this it is too high
	at    int   // in the heap
}

func newHeavySketch(counters int) *heavySketch {
	return &heavySketch{heap: make([]*heavyValue, 0, counters), of: make(map[string]*heavyValue, counters)}
}

// add counts a value, which it copies.
func (s *heavySketch) add(value []byte) {
	v := s.of[string(value)]
	switch {
	case v != nil:
	case len(s.heap) < cap(s.heap):
		v = &heavyValue{value: string(value), at: len(s.heap)}
		s.of[v.value] = v
		s.heap = append(s.heap, v)
		s.up(v)
	default:
		v = s.heap[0]
		delete(s.of, v.value)
		v.value, v.most = string(value), v.count
		s.of[v.value] = v
	}
	v.count++
	s.down(v)
}

// up moves a value with the count 0 to the top.
func (s *heavySketch) up(v *heavyValue) {
	for v.at > 0 {
		s.swap(v.at, (v.at-1)/2)
	}
}

// down moves a value below those with lower counts.
func (s *heavySketch) down(v *heavyValue) {
	for {
		least := v.at
		for child := 2*v.at + 1; child <= 2*v.at+2 && child < len(s.heap); child++ {
			if s.heap[child].count < s.heap[least].count {
				least = child
			}
		}
		if least == v.at {
			return
		}
		s.swap(v.at, least)
	}
}

func (s *heavySketch) swap(i, j int) {
	s.heap[i], s.heap[j] = s.heap[j], s.heap[i]
	s.heap[i].at, s.heap[j].at = i, j
}

// heaviest returns the values with the highest counts, those of the same count by the value.
func (s *heavySketch) heaviest(number int) []*heavyValue {
	all := slices.SortedFunc(slices.Values(s.heap), func(a, b *heavyValue) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.value, b.value))
	})
	return all[:min(len(all), number)]
}
