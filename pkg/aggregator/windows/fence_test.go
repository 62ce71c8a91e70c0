package windows

import (
	"context"
	"errors"
	"testing"
	"time"

	"weir/internal/store"
)

// A gatedStore has a fence and one value. Its readings look at once, and answer when the gate opens.
type gatedStore struct {
	store.Store
	fence store.Fence
	gate  chan struct{}
	fails error // what a write answers after it was done
}

func (s *gatedStore) Take(context.Context, int) (store.Fence, error) { return s.fence, nil }

func (s *gatedStore) Write(_ context.Context, _ int, named store.Fence, _ []store.Change) (store.Fence, error) {
	if named != s.fence {
		return s.fence, store.ErrFenced
	}
	s.fence = s.fence.Next()
	return s.fence, s.fails
}

func (s *gatedStore) Read(context.Context, int, store.Space, [][]byte) ([][]byte, store.Fence, error) {
	found := s.fence
	<-s.gate
	return [][]byte{[]byte("value")}, found, nil
}

// slowRead begins a reading that does not answer in time, lets it answer, and leaves it to be awaited again.
func slowRead(t *testing.T, o *Owned, s *gatedStore) *reading {
	t.Helper()
	r := o.begin(t.Context(), store.Windows, [][]byte{[]byte("key")})
	if _, err := o.await(r); !errors.Is(err, ErrSlow) {
		t.Fatalf("%v; want %v", err, ErrSlow)
	}
	close(s.gate)
	select {
	case <-r.done:
	case <-time.After(time.Minute):
		t.Fatal("the reading does not end")
	}
	return r
}

func owned(t *testing.T) (*Owned, *gatedStore) {
	t.Helper()
	s := &gatedStore{fence: store.Fence{Epoch: 1, Owner: 7}, gate: make(chan struct{})}
	o := &Owned{Store: s}
	if err := o.Take(t.Context()); err != nil {
		t.Fatal(err)
	}
	return o, s
}

// A slow reading has answered, and is awaited only after a write: the fence that it found is the one before.
func TestASlowReadingIsGoodAfterAWrite(t *testing.T) {
	o, s := owned(t)
	r := slowRead(t, o, s)
	if err := o.Write(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if values, err := o.await(r); err != nil || string(values[0]) != "value" {
		t.Errorf("%q, %v", values, err)
	}
}

// The same, where the write before the reading was done without an answer.
func TestASlowReadingIsGoodAfterAnUnansweredWrite(t *testing.T) {
	o, s := owned(t)
	s.fails = errors.New("no answer")
	if err := o.Write(t.Context(), nil); err == nil {
		t.Fatal("the write was answered")
	}
	s.fails = nil
	r := slowRead(t, o, s)
	if err := o.Write(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if values, err := o.await(r); err != nil || string(values[0]) != "value" {
		t.Errorf("%q, %v", values, err)
	}
}

// A reading that finds another owner is refused, with a write in between and without one.
func TestASlowReadingOfAnotherOwnersPartitionIsRefused(t *testing.T) {
	o, s := owned(t)
	s.fence = store.Fence{Epoch: 2, Owner: 8}
	r := slowRead(t, o, s)
	if err := o.Write(t.Context(), nil); !errors.Is(err, store.ErrFenced) {
		t.Errorf("the write: %v; want %v", err, store.ErrFenced)
	}
	if _, err := o.await(r); !errors.Is(err, store.ErrFenced) {
		t.Errorf("the reading: %v; want %v", err, store.ErrFenced)
	}
}
