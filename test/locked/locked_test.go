package locked_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"weir/test/locked"
)

func TestLinesOfSeveralGoroutinesStayWhole(t *testing.T) {
	var b locked.Buffer
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() { fmt.Fprintf(&b, "line %d\n", i) })
	}
	all.Wait()
	if !b.Has("line 7\n") || b.Has("line 10") || strings.Count(b.String(), "\n") != 10 {
		t.Errorf("%q", b.String())
	}
	if taken := b.Take(); strings.Count(taken, "\n") != 10 || b.String() != "" {
		t.Errorf("%q was taken, %q is left", taken, b.String())
	}
}
