package aggregator

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"

	"weir/internal/store"
)

// A memoryStore is the slow twin of a store, which can be put back to what it was.
type memoryStore struct {
	mu     sync.Mutex
	agreed map[string][]byte
	parts  map[int]*memoryPart
}

type memoryPart struct {
	fence  store.Fence
	spaces map[store.Space]map[string][]byte
}

func newMemoryStore() *memoryStore {
	return &memoryStore{agreed: map[string][]byte{}, parts: map[int]*memoryPart{}}
}

func (m *memoryStore) part(n int) *memoryPart {
	if m.parts[n] == nil {
		m.parts[n] = &memoryPart{spaces: map[store.Space]map[string][]byte{store.Windows: {}, store.Index: {}, store.Notes: {}}}
	}
	return m.parts[n]
}

// copyOf is what a partition has now.
func (m *memoryStore) copyOf(n int) *memoryPart {
	of := &memoryPart{fence: m.part(n).fence, spaces: map[store.Space]map[string][]byte{}}
	for space, pairs := range m.part(n).spaces {
		of.spaces[space] = maps.Clone(pairs)
	}
	return of
}

func (m *memoryStore) Agree(_ context.Context, name string, value []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.agreed[name] == nil {
		m.agreed[name] = bytes.Clone(value)
	}
	return m.agreed[name], nil
}

func (m *memoryStore) Take(_ context.Context, n int) (store.Fence, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.part(n)
	p.fence = p.fence.Taken()
	return p.fence, nil
}

func (m *memoryStore) Write(_ context.Context, n int, fence store.Fence, changes []store.Change) (store.Fence, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.part(n)
	if p.fence != fence {
		return p.fence, store.ErrFenced
	}
	for _, c := range changes {
		if c.Value == nil {
			delete(p.spaces[c.Space], string(c.Key))
			continue
		}
		p.spaces[c.Space][string(c.Key)] = bytes.Clone(c.Value)
	}
	p.fence = p.fence.Next()
	return p.fence, nil
}

func (m *memoryStore) Read(_ context.Context, n int, space store.Space, keys [][]byte) ([][]byte, store.Fence, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	values := make([][]byte, len(keys))
	for i, key := range keys {
		values[i] = bytes.Clone(m.part(n).spaces[space][string(key)])
	}
	return values, m.part(n).fence, nil
}

func (m *memoryStore) Scan(_ context.Context, n int, space store.Space, from store.Cursor, pairs int) (store.Page, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	page := store.Page{Fence: m.part(n).fence}
	for _, key := range slices.Sorted(maps.Keys(m.part(n).spaces[space])) {
		if store.Cursor(key) < from {
			continue
		}
		if len(page.Pairs) == pairs {
			page.Next = store.Cursor(key)
			break
		}
		page.Pairs = append(page.Pairs, store.Pair{Key: []byte(key), Value: bytes.Clone(m.part(n).spaces[space][key])})
	}
	return page, nil
}

func (m *memoryStore) Sync(context.Context) error { return nil }
func (m *memoryStore) Close() error               { return nil }
