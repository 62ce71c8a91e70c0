package enforcer

import "slices"

// best keeps the first of many values in an order, and no more than twice as many as are wanted in memory.
type best[T any] struct {
	most    int
	compare func(a, b T) int
	kept    []T
	dropped int
}

// add adds a value.
func (b *best[T]) add(value T) {
	if b.kept = append(b.kept, value); len(b.kept) == 2*b.most {
		b.cut()
	}
}

// cut drops all values but the first ones. It is called once for every most values, so that adding one takes the time of
// sorting few.
func (b *best[T]) cut() {
	slices.SortFunc(b.kept, b.compare)
	first := min(b.most, len(b.kept))
	b.dropped += len(b.kept) - first
	b.kept = slices.Delete(b.kept, first, len(b.kept))
}

// sorted returns the first values in their order, and how many others there were. Nothing can be added after it.
func (b *best[T]) sorted() (first []T, dropped int) {
	b.cut()
	return b.kept, b.dropped
}
