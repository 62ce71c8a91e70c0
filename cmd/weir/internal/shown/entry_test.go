package shown

import (
	"testing"

	"weir/pkg/blocklist"
)

// The reason that a command gives by itself ends in the user's name, which is not shown twice.
func TestTheAuthorIsNamedOnce(t *testing.T) {
	for why, want := range map[string]string{
		"unblocked by hand by root":  "by root: unblocked by hand",
		"unblocked by hand by alice": "by root: unblocked by hand by alice",
		"their backup":               "by root: their backup",
	} {
		e := &Entry{Entry: blocklist.Entry{Source: blocklist.Manual, By: "root", Why: why}}
		if got := e.WhyText(); got != want {
			t.Errorf("%q: %q, want %q", why, got, want)
		}
	}
}
