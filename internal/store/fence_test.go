package store

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func TestFencesComeBack(t *testing.T) {
	for _, f := range []Fence{{}, {1, 2, 0}, {math.MaxUint64, math.MaxUint64, math.MaxUint64}, {3, 1 << 63, 12}} {
		if got, err := ParseFence(f.String()); err != nil || got != f {
			t.Errorf("%q is read as %v, %v", f, got, err)
		}
	}
	for _, text := range []string{"x", "1/2", "1/0000000000000002/3/4", "1/0000000000000002/3 ", "01/0000000000000002/3", "1/2/3", "-1/0000000000000002/3", "0/0000000000000000/0"} {
		if got, err := ParseFence(text); !errors.Is(err, ErrForeign) {
			t.Errorf("%q is read as %v, %v", text, got, err)
		}
	}
}

// Logs lose lines that are very long.
func TestAForeignFenceIsNotRepeatedCompletely(t *testing.T) {
	if _, err := ParseFence(strings.Repeat("x", 1<<20)); err == nil || len(err.Error()) > 1000 {
		t.Error("an error has as many bytes as what it is about")
	}
}

func TestEveryTakingIsAnother(t *testing.T) {
	f := Fence{Epoch: 7, Owner: 5, N: 9}
	if next := f.Next(); next != (Fence{7, 5, 10}) {
		t.Errorf("after a write %v is %v", f, next)
	}
	a, b := f.Taken(), f.Taken()
	if a.Epoch != 8 || a.N != 0 || a.Owner == b.Owner {
		t.Errorf("taken, %v is %v and %v", f, a, b)
	}
}
