package nearest_test

import (
	"testing"

	"weir/internal/nearest"
)

func TestNearest(t *testing.T) {
	known := []string{"limits", "match", "mode", "ip"}
	for word, want := range map[string]string{"limit": "limits", "macth": "match", "Mode": "mode", "pi": "ip", "x": "", "burst": "", "mde": "mode", "liimits": "limits"} {
		if got := nearest.Word(word, known); got != want {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
}
