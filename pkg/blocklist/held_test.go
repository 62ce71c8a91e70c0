package blocklist

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Many refs are sorted as few are.
func TestSortRefs(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{0, 1, 100, 1 << 13, 50_000} {
		refs := make([]ref, n)
		for i := range refs {
			refs[i] = ref(random.IntN(300)<<unitBits | random.IntN(1<<unitBits))
		}
		want := slices.Sorted(slices.Values(refs))
		if sortRefs(refs, 300); !slices.Equal(refs, want) {
			t.Errorf("%d refs are not in order", n)
		}
	}
}

// The parts of a held record that are read without decoding it are those that decoding it gives.
func TestHeldIsReadWithoutDecoding(t *testing.T) {
	set := NewSet(Limits{})
	entries := []*Entry{
		{ID: "1", Rule: "per-ip", Key: "203.0.113.1", From: at, Until: at + 1000, Decided: at + 5, Limit: "10/min", Count: 11, Level: 1, By: "weir"},
		{ID: "2", Rule: "per-ip", Key: "203.0.113.2", From: at, Until: Never, Decided: at - 7, Limit: "10/min", Count: 11, Level: 1, Mode: Shadow, By: "weir", Generation: 3, Offset: 1 << 40},
	}
	f := set.Fill()
	for i, e := range entries {
		if err := f.Apply(at, record(t, int64(i), e)); err != nil {
			t.Fatal(err)
		}
	}
	f.Swap(State{Version{list, f.Last}, true, at}, at)
	orders := []*Order{
		{ID: "3", Kind: OrderBlock, Scope: "ip", Value: "203.0.113.3", From: at + 1, Until: Never, By: "ann", Why: "because"},
		{ID: "4", Kind: OrderAllow, Scope: "user", Value: "bob", From: at + 2, Until: at + 9000, By: "ann", Why: "because"},
	}
	for _, o := range orders {
		if err := set.Order(o, at); err != nil {
			t.Fatal(err)
		}
	}

	seen := 0
	for h := range set.Held(at) {
		seen++
		e := h.Entry()
		if h.Decided() != e.Decided || string(h.KeyBytes()) != e.Key || h.Kind() != e.Order || h.Shadow() != (e.Mode == Shadow) {
			t.Errorf("%+v: decided %d, key %q, kind %s, shadow %v", e, h.Decided(), h.KeyBytes(), h.Kind(), h.Shadow())
		}
	}
	if seen != 4 {
		t.Errorf("%d are held", seen)
	}
}
