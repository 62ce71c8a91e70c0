package command

import (
	"strings"
	"testing"

	"weir/pkg/window"
)

// An unknown name is an error, also together with all.
func TestAlgorithmsOfAFlag(t *testing.T) {
	for _, names := range [][]string{{"all"}, {"sliding", "all"}} {
		if got, err := Algorithms(names); err != nil || len(got) != len(window.Algorithms()) {
			t.Errorf("%v: %v, %v", names, got, err)
		}
	}
	if _, err := Algorithms([]string{"all", "foo"}); err == nil || !strings.Contains(err.Error(), "foo") || strings.Contains(err.Error(), `"all"`) {
		t.Error(err)
	}
}
