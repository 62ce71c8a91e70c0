package backtest

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// push handles a hit like a counter, without counting.
func push(r *reorder, rec record, out []record) []record {
	if r.tooLate(rec.at()) {
		return out
	}
	if !r.add(rec) {
		out = drain(r, r.due(nil), out)
		if !r.add(rec) {
			panic("the ring does not reach over late")
		}
	}
	return out
}

func drain(r *reorder, buckets [][]record, out []record) []record {
	for _, b := range buckets {
		out = append(out, b...)
	}
	r.giveBack(buckets)
	return out
}

// The result is that of a stable sort of all hits by time, whenever the due buckets are released.
func TestReorderSortsHitsWithinLate(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		late := time.Duration(random.Int64N(1<<random.IntN(28))) * time.Millisecond
		r := newReorder(late)
		var in, out []record
		at, newest := random.Int64N(1<<40), int64(0)
		for i := range random.IntN(2000) {
			at += random.Int64N(1 << random.IntN(14))
			rec := newRecord(at, random.IntN(3), i, 1, false)
			if random.IntN(3) == 0 && newest > 0 {
				rec = newRecord(max(0, newest-random.Int64N(late.Milliseconds()+1)), random.IntN(3), i, 1, false)
			}
			newest = max(newest, rec.at())
			in, out = append(in, rec), push(r, rec, out)
			if random.IntN(50) == 0 {
				out = drain(r, r.due(nil), out)
			}
		}
		out = drain(r, r.rest(nil), out)
		slices.SortStableFunc(in, func(a, b record) int { return cmp.Compare(a.when>>1, b.when>>1) })
		if !slices.Equal(in, out) {
			t.Fatalf("late %v: %d hits in, %d out, or in another order", late, len(in), len(out))
		}
		if r.held != 0 {
			t.Fatalf("%d hits held at the end", r.held)
		}
	}
}

func TestReorderKeepsOnlyHitsWithinLate(t *testing.T) {
	r := newReorder(10 * time.Second)
	most := 0
	for at := int64(0); at < 1_000_000; at += 10 {
		push(r, newRecord(at, 0, 0, 1, false), nil)
		r.giveBack(r.due(nil))
		most = max(most, r.held)
	}
	if most > 1200 {
		t.Fatalf("%d hits held, of which 10 s hold 1,000 and a bucket 100", most)
	}
}

func TestRecordKeepsItsFields(t *testing.T) {
	rec := newRecord(1<<42-1, maxInputs-1, 1<<32-1, 1<<32-1, true)
	if rec.at() != 1<<42-1 || !rec.more() || rec.key != 1<<32-1 || rec.cost != 1<<32-1 || rec.when>>1&(maxInputs-1) != maxInputs-1 {
		t.Fatalf("%+v", rec)
	}
}
