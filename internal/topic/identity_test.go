package topic_test

import (
	"testing"

	"weir/internal/topic"
)

func TestIdentitiesAreCompared(t *testing.T) {
	for _, c := range []struct {
		one, other topic.Identity
		same       bool
	}{
		{"c/hits/1", "c/hits/1", true},
		{"c/hits/1", "c/hits/2", false},
		{"c/hits/1", "c/hits/", true}, // of a broker that knows no ids
		{"c/hits/", "c/hits/", true},
		{"c/hits/", "d/hits/", false},
		{"c/hits/1", "d/hits/1", false},
		{"c/hits/1", "c/more.hits/1", false},
		{"", "c/hits/1", false},
		{"", "", true},
	} {
		if c.one.Is(c.other) != c.same || c.other.Is(c.one) != c.same {
			t.Errorf("%q and %q: %t", c.one, c.other, !c.same)
		}
	}
}
