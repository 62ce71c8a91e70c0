package windows

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/store"
	"weir/pkg/window"
)

// A slowStore is one behind a slow network: a second for 20 MB.
type slowStore struct {
	store.Store
	fence  store.Fence
	values map[string][]byte
	calls  int
}

func (s *slowStore) transfer(ctx context.Context, bytes int) error {
	s.calls++
	select {
	case <-time.After(time.Duration(bytes) * 50 * time.Nanosecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *slowStore) Write(ctx context.Context, _ int, fence store.Fence, changes []store.Change) (store.Fence, error) {
	bytes := 0
	for _, c := range changes {
		bytes += len(c.Value)
	}
	if err := s.transfer(ctx, bytes); err != nil {
		return s.fence, err
	}
	for _, c := range changes {
		s.values[string(c.Key)] = append([]byte{}, c.Value...)
	}
	s.fence = fence.Next()
	return s.fence, nil
}

func (s *slowStore) Read(ctx context.Context, _ int, _ store.Space, keys [][]byte) (values [][]byte, _ store.Fence, _ error) {
	bytes := 0
	for _, key := range keys {
		values = append(values, s.values[string(key)])
		bytes += len(values[len(values)-1])
	}
	return values, s.fence, s.transfer(ctx, bytes)
}

// Windows that are large are written and read by calls that each end in time, and small ones by few calls, whatever stands
// between them.
func TestLargeWindows(t *testing.T) {
	estimates, err := window.New(window.Config{Limits: []window.Limit{{Hits: 200_000, Per: time.Hour}}, Distinct: 7, Late: time.Minute, Block: window.Block{For: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	few, err := window.New(window.Config{Limits: []window.Limit{{Hits: 10, Per: time.Hour}}, Block: window.Block{For: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	const large, small = 2000, 12_000
	var state window.State
	for n := range 160_000 {
		estimates.HitValue(&state, int64(n)*20, uint64(n))
	}
	bytes := len(estimates.Append(nil, &state))

	synctest.Test(t, func(t *testing.T) {
		slow := &slowStore{values: map[string][]byte{}}
		own := &Owned{Store: slow, Patience: time.Hour}
		fresh := func() *Set {
			return New(large+small, own, Notices{Cold: func(int) {}, Damaged: func(err error) { t.Error(err) }})
		}
		pages, per := &Rule{Name: "pages", Policy: estimates}, &Rule{Name: "per", Policy: few}
		h := fresh()
		for n := range large {
			w := h.Want(fmt.Sprint("pages/", n), pages)
			w.Loaded, w.State = true, state
			delete(h.unloaded, w.Name)
			h.add(w)
			h.Change(w)
		}
		h.wanted = nil
		began := time.Now()
		for h.Dirty() > 0 {
			if err := h.WriteBack(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%d windows of %d bytes are written within %v by %d calls", large, bytes, time.Since(began), slow.calls)

		h, slow.calls, began = fresh(), 0, time.Now()
		for n := range small {
			h.Want(fmt.Sprint("per/", n), per)
		}
		for n := range large {
			h.Want(fmt.Sprint("pages/", n), pages)
		}
		for tries := 0; ; tries++ {
			err := h.Load(t.Context())
			if err == nil {
				break
			}
			if !errors.Is(err, context.DeadlineExceeded) || tries == 3 {
				t.Fatal(err)
			}
		}
		t.Logf("they are read within %v by %d calls", time.Since(began), slow.calls)
		if w, hot := h.FindNamed(fmt.Sprint("pages/", large-1)); !hot || len(estimates.Append(nil, &w.State)) != bytes {
			t.Error("the last one is not as it was written")
		}
		if most := 5 * large * bytes / readBytes; slow.calls > most {
			t.Errorf("%d calls, and %d would do", slow.calls, most)
		}
	})
}
