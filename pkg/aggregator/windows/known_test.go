package windows

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"weir/internal/store"
	"weir/internal/store/disk"
	"weir/pkg/window"
)

// Names have all that were added, few others, and no more memory than a tenth of the hot windows'.
func TestNamesHaveAllThatWereAdded(t *testing.T) {
	const size, added = 10_000, 150_000
	var k known
	k.begin(size)
	for n := range added {
		if n == added/2 {
			k.end()
			k.begin(size)
			for n := range n {
				k.add(fmt.Append(nil, "a/", n))
			}
		}
		k.add(fmt.Append(nil, "a/", n))
	}
	k.end()
	for n := range added {
		if k.lacks(fmt.Append(nil, "a/", n)) {
			t.Fatalf("number %d is missing", n)
		}
	}
	others := 0
	for n := range added {
		if !k.lacks(fmt.Append(nil, "b/", n)) {
			others++
		}
	}
	if others > added/20 {
		t.Errorf("%d of %d others are taken for known", others, added)
	}
	bits := uint(0)
	for _, layer := range k.all.layers {
		bits += layer.Cap()
	}
	if most := uint(size * 16 * 10); bits > most {
		t.Errorf("%d bits, at most %d wanted", bits, most)
	}
	for n := range 2 * added {
		k.add(fmt.Append(nil, "c/", n))
	}
	after := uint(0)
	for _, layer := range k.all.layers {
		after += layer.Cap()
	}
	if after > 2*bits || k.lacks([]byte("d/1")) {
		t.Errorf("%d bits, %d before; beyond the most it may have any name", after, bits)
	}
}

// Windows that are taken for new are never in the store, whatever was written, found, pushed out and swept away.
func TestNewWindowsAreNotInTheStore(t *testing.T) {
	policy, err := window.New(window.Config{Limits: []window.Limit{{Hits: 10, Per: time.Minute}}, Block: window.Block{For: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	kept, err := disk.Open(t.Context(), disk.Options{Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	owners := []*Owned{{Store: kept}, {Store: kept}}
	rule := &Rule{Name: "a", Policy: policy}
	random := rand.New(rand.NewPCG(3, 4))
	now := time.UnixMilli(0)
	fresh, found, swept := 0, 0, 0
	for n := range 4 {
		own := owners[n%2]
		if err := own.Take(t.Context()); err != nil {
			t.Fatal(err)
		}
		h := New(64, own, Notices{Cold: func(int) {}, New: func() { fresh++ }})
		h.Guard = NewGuard(1)
		sweep := &Sweep{Set: h, Rules: func(string) *Rule { return rule }}
		for offset := range int64(2000) {
			now = now.Add(3 * time.Second)
			for range 8 {
				name := fmt.Sprint("a/", random.IntN(400)+int(now.Unix())/3)
				w, _ := h.FindNamed(name)
				if w == nil {
					before := fresh
					w = h.Want(name, rule)
					values, _, err := kept.Read(t.Context(), 0, store.Windows, [][]byte{[]byte(name)})
					if err != nil {
						t.Fatal(err)
					}
					if values[0] != nil {
						found++
					}
					if isNew := fresh > before; isNew != w.Loaded || isNew && values[0] != nil {
						t.Fatalf("%s: loaded %t, counted as new %t, in the store %t", name, w.Loaded, isNew, values[0] != nil)
					}
				}
				if err := h.Load(t.Context()); err != nil {
					t.Fatal(err)
				}
				h.Change(w)
				w.Offset = offset
				policy.Hit(&w.State, now.UnixMilli(), 1)
			}
			if random.IntN(3) == 0 {
				if err := h.WriteBack(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			h.Settle()
			n, err := sweep.Turn(t.Context(), now, &Checkpoint{Offset: offset - 100}, now.UnixMilli())
			if err != nil {
				t.Fatal(err)
			}
			swept += n
		}
	}
	if fresh < 1000 || found < 1000 || swept < 1000 {
		t.Errorf("%d new, %d found, %d swept: too few to mean anything", fresh, found, swept)
	}
}
