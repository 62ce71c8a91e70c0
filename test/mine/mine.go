// Package mine has a mistake in the program, for tests of what continues in spite of it.
package mine

import (
	"math/rand/v2"
	"sync"
)

// A Mine panics now and then, as long as it is armed.
type Mine struct {
	Armed int // panics that are left
	Every int // calls between them, on average

	mu sync.Mutex
}

// Only selects all records, as an intake's Only.
func (m *Mine) Only(func(string) (string, bool)) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Armed > 0 && rand.IntN(m.Every) == 0 {
		m.Armed--
		panic("a mine")
	}
	return true
}

// Exploded reports whether no panics are left.
func (m *Mine) Exploded() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.Armed == 0
}
