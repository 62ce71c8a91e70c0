// Package locked has the buffer that tests give to a logger or a process, and read while it writes.
package locked

import (
	"bytes"
	"strings"
	"sync"
)

// A Buffer may be written and read by several goroutines. The zero value is empty.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns all that was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Has reports whether a text was written.
func (b *Buffer) Has(text string) bool { return strings.Contains(b.String(), text) }

// Take returns all that was written, and forgets it.
func (b *Buffer) Take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := b.text.String()
	b.text.Reset()
	return text
}
