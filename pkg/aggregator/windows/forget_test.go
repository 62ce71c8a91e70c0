package windows

import (
	"fmt"
	"testing"
	"time"

	"weir/pkg/window"
)

// Windows that are clear and written leave memory, and no others.
func TestForgetDropsWhatIsClearAndWritten(t *testing.T) {
	policy, err := window.New(window.Config{Limits: []window.Limit{{Hits: 10, Per: time.Minute}}, Block: window.Block{For: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	const minute = 60_000
	h := New(1000, &Owned{}, Notices{})
	rule := &Rule{Name: "a", Policy: policy}
	name := func(n int) string { return fmt.Sprint("a/", n) }
	for n := range 100 {
		w := h.Want(name(n), rule)
		w.Loaded = true
		delete(h.unloaded, w.Name)
		h.add(w)
		policy.Hit(&w.State, int64(n+1)*minute, 1)
		if n%3 == 0 {
			h.Change(w)
		}
	}
	h.Forget(50 * minute) // window n is clear from n+2 minutes on
	for n := range 100 {
		w, hot := h.FindNamed(name(n))
		if want := n > 48 || n%3 == 0; hot != want || want != h.Has(name(n)) {
			t.Errorf("%s: %+v, hot %t", name(n), w, hot)
		}
	}
	if h.Len() != 51+17 || h.Leaving() != 0 || h.Dirty() != 34 {
		t.Errorf("%d are hot, %d leave, %d are not written", h.Len(), h.Leaving(), h.Dirty())
	}

	h.wrote(h.Dirty())
	if h.Forget(50 * minute); h.Len() != 51+17 {
		t.Errorf("%d are hot, though none was added since", h.Len())
	}
	h.added += 100
	if h.Forget(50 * minute); h.Len() != 51 {
		t.Errorf("%d are hot when all are written", h.Len())
	}
}
