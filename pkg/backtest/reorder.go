package backtest

import (
	"math"
	"slices"
	"time"
)

// A reorder sorts hits by time, those of the same millisecond by the order of their inputs, and of one input by the
// order of its lines.
//
// Hits wait in buckets, a second wide or more, that form a ring by time. A bucket that lies completely before the
// newest hit minus late is due: no earlier hit can follow. A hit that comes later than that is not accepted. So the
// memory is that of the hits within late, 16 bytes each. A hit with a value takes two records, and the second has the
// value: they are added together, so they stay next to each other.
type reorder struct {
	late, width int64      // milliseconds
	newest      int64      // hit taken; longAgo before the first
	oldest      int64      // number of the first bucket in the ring
	ring        [][]record // by number modulo the length, a power of two
	held        int        // records
	free        [][]record // emptied buckets, the warmest last
}

// A record is a waiting hit.
type record struct {
	when uint64 // milliseconds<<22 | input<<1 | 1 if the next record is of the same request
	key  uint32
	cost uint32 // rule.MaxCost at most; or valueFollows
}

// valueFollows is the cost of a hit whose value is in the next record.
const valueFollows = 1<<32 - 1

const (
	inputBits   = 21
	maxInputs   = 1 << inputBits
	mostBuckets = 1 << 13
	longAgo     = math.MinInt64 / 2
)

func newRecord(at int64, input, key int, cost uint32, more bool) record {
	when := uint64(at)<<(inputBits+1) | uint64(input)<<1
	if more {
		when |= 1
	}
	return record{when, uint32(key), cost}
}

// withValue is the two records of a hit with a value.
func (r record) withValue(value uint64) [2]record {
	r.cost = valueFollows
	return [2]record{r, {r.when, uint32(value), uint32(value >> 32)}}
}

// value is that of a hit's second record.
func (r *record) value() uint64 { return uint64(r.cost)<<32 | uint64(r.key) }

func (r *record) at() int64  { return int64(r.when >> (inputBits + 1)) }
func (r *record) more() bool { return r.when&1 == 1 }

func newReorder(late time.Duration) *reorder {
	r := &reorder{late: late.Milliseconds(), width: 1000, newest: longAgo}

	// Wider buckets and not more of them: a lateness of days must not make a ring of millions.
	for r.late/r.width+2 > mostBuckets {
		r.width *= 2
	}
	length := int64(64)
	for length < r.late/r.width+2 {
		length *= 2
	}
	r.ring = make([][]record, length)
	return r
}

// tooLate reports whether a hit at this instant comes too late to be sorted.
func (r *reorder) tooLate(at int64) bool { return at < r.newest-r.late }

// add adds a hit that is not too late. It returns false if the ring does not reach that far: the due buckets must be
// released first.
func (r *reorder) add(rec record) bool {
	at := rec.at()
	r.newest = max(r.newest, at)
	number := at / r.width
	// An empty ring begins with the oldest hit that is still accepted.
	if r.held == 0 {
		r.oldest = max(0, r.newest-r.late) / r.width
	}
	if number-r.oldest >= int64(len(r.ring)) {
		return false
	}

	bucket := &r.ring[number&int64(len(r.ring)-1)]
	// The memory of a bucket that was emptied last is the most likely to be in the cache.
	if *bucket == nil && len(r.free) > 0 {
		*bucket, r.free = r.free[len(r.free)-1], r.free[:len(r.free)-1]
	}

	*bucket = append(*bucket, rec)
	r.held++
	return true
}

// due appends the due buckets to into, the oldest first, each sorted. They are valid until giveBack.
func (r *reorder) due(into [][]record) [][]record {
	return r.release(into, (r.newest-r.late)/r.width)
}

// rest is all waiting hits.
func (r *reorder) rest(into [][]record) [][]record { return r.release(into, math.MaxInt64) }

func (r *reorder) release(into [][]record, before int64) [][]record {
	for ; r.held > 0 && r.oldest < before; r.oldest++ {
		bucket := &r.ring[r.oldest&int64(len(r.ring)-1)]
		if *bucket == nil {
			continue
		}

		records := *bucket
		if !slices.IsSortedFunc(records, compareRecords) {
			slices.SortStableFunc(records, compareRecords)
		}

		r.held -= len(*bucket)
		into, *bucket = append(into, *bucket), nil
	}
	return into
}

// giveBack returns the buckets of due, to be filled again.
func (r *reorder) giveBack(buckets [][]record) {
	for _, b := range buckets {
		r.free = append(r.free, b[:0])
	}
}

func compareRecords(a, b record) int {
	// The lowest bit is not part of the order.
	switch x, y := a.when>>1, b.when>>1; {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}
