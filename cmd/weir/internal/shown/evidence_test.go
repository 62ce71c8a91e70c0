package shown

import (
	"strings"
	"testing"
	"time"

	"weir/pkg/evidence"
)

// The requests of an entry are shown with what was counted: hits, or different values.
func TestEvidenceSaysWhatWasCounted(t *testing.T) {
	for limit, want := range map[string]string{"20/hour": "(1 kept, 21 hits counted)", "20 different paths within an hour": "(1 kept, 21 different values counted)"} {
		e := &Evidence{Rule: "scanners", Key: "192.0.2.1", Requests: []evidence.Request{{Time: time.Unix(1, 0)}}, Counted: 21, Limit: limit}
		var b strings.Builder
		e.Text(&b, NewTimes(&b, time.Unix(2, 0)))
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s: %s", limit, b.String())
		}
	}
}
