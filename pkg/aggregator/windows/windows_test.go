package windows

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// A window that is wanted all the time stays hot, whatever passes through; one that was pushed out is never found as hot.
func TestWantedKeysStayHot(t *testing.T) {
	const size = 64
	h := New(size, &Owned{}, Notices{})
	rule := &Rule{Name: "a"}
	named := func(name string) *Window {
		w, _ := h.FindNamed(name)
		if w == nil {
			w = h.Want(name, rule)
			w.Loaded = true
			delete(h.unloaded, name)
			h.add(w)
		}
		return w
	}
	wanted := named("a/wanted")
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 10_000 {
		if named("a/wanted") != wanted {
			t.Fatalf("after %d others it is another window", n)
		}
		named(fmt.Sprint("a/", random.IntN(1000)))
		if h.hot.Len() > size {
			t.Fatalf("%d windows are hot", h.hot.Len())
		}
		h.Settle()
		for range 10 {
			name := fmt.Sprint("a/", random.IntN(1000))
			if w, hot := h.FindNamed(name); hot && (w.evicted || !h.hot.Contains(w) || w.Name != name) {
				t.Fatalf("%s is found and is not hot", name)
			}
		}
	}
}
