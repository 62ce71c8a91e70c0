package blocklist

import "math"

// An expiry is a heap of the times when records end, the earliest first. An item is the second after the end, above the
// record's hash. A record whose end moved has several items; items that find nothing to end are dropped.
type expiry []uint64

func (x *expiry) add(until int64, hash uint32) {
	second := uint64(min((until+999)/1000, math.MaxUint32))
	if until == Never {
		return
	}

	*x = append(*x, second<<32|uint64(hash))
	h := *x
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if h[parent] <= h[i] {
			return
		}
		h[parent], h[i] = h[i], h[parent]
		i = parent
	}
}

// next removes the earliest item when its time has come.
func (x *expiry) next(now int64) (hash uint32, ok bool) {
	h := *x
	if len(h) == 0 || int64(h[0]>>32)*1000 > now {
		return 0, false
	}

	// The last item replaces the first, and sinks to its place.
	hash = uint32(h[0])
	last := len(h) - 1
	h[0] = h[last]
	h = h[:last]
	for i := 0; ; {
		least := 2*i + 1
		if least >= last {
			break
		}
		if right := least + 1; right < last && h[right] < h[least] {
			least = right
		}
		if h[i] <= h[least] {
			break
		}

		h[i], h[least] = h[least], h[i]
		i = least
	}

	*x = h
	return hash, true
}
