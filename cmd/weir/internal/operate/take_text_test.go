package operate

import (
	"strings"
	"testing"
)

func TestTakeText(t *testing.T) {
	for part, a := range map[string]takeAnswer{
		"Admitted: quota leaves it alone.\n":                          {Admitted: true, Allowed: true, Store: "ok"},
		"Admitted: the store of inline rules did not answer, and quo": {Admitted: true, Store: "allow"},
		"Admitted: 3 of 10/min remain.\n":                             {Admitted: true, Limit: "10/min", Remaining: 3, Store: "local"},
	} {
		if got := a.text("quota"); !strings.HasPrefix(got, part) {
			t.Errorf("%q is not %q", got, part)
		}
	}
}
