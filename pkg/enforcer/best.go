package enforcer

import (
	"container/heap"
	"slices"
)

// best keeps the first of many values in an order, and no more than most of them in memory.
type best[T any] struct {
	most    int
	compare func(a, b T) int
	kept    []T // a heap, with the last value at its top
}

// add adds a value, and reports whether one was dropped for it: itself, or the last that was kept.
func (b *best[T]) add(value T) (dropped bool) {
	heap.Push(b, value)
	if dropped = len(b.kept) > b.most; dropped {
		heap.Pop(b)
	}
	return dropped
}

// sorted returns the values in their order. Nothing can be added after it.
func (b *best[T]) sorted() []T {
	slices.SortFunc(b.kept, b.compare)
	return b.kept
}

// Len is for package heap, as are the other methods below.
func (b *best[T]) Len() int { return len(b.kept) }

// Less puts the last value at the top.
func (b *best[T]) Less(i, j int) bool { return b.compare(b.kept[i], b.kept[j]) > 0 }

// Swap exchanges two values.
func (b *best[T]) Swap(i, j int) { b.kept[i], b.kept[j] = b.kept[j], b.kept[i] }

// Push adds a value at the end.
func (b *best[T]) Push(value any) { b.kept = append(b.kept, value.(T)) }

// Pop takes the value at the end.
func (b *best[T]) Pop() any {
	end := len(b.kept) - 1
	value := b.kept[end]
	b.kept = b.kept[:end]
	return value
}
