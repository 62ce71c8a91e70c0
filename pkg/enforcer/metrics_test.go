package enforcer

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/pkg/enforcer/tally"
	"weir/pkg/inline"
)

// The series of manual entries begin at 0, so that an alert sees the first one.
func TestSeriesOfManualEntriesBeginAtZero(t *testing.T) {
	r := prometheus.NewRegistry()
	newMetrics(r, list(t), inline.New(inline.Config{}), tally.New(time.Now()), time.Now)
	for name, want := range map[string]string{
		"weir_enforcer_entries": `
# HELP weir_enforcer_entries Active entries.
# TYPE weir_enforcer_entries gauge
weir_enforcer_entries{mode="enforce",rule="manual"} 0
`,
		"weir_enforcer_checks_total": `
# HELP weir_enforcer_checks_total Checks, by answer and by the rule that decided it.
# TYPE weir_enforcer_checks_total counter
weir_enforcer_checks_total{answer="allowed",rule=""} 0
weir_enforcer_checks_total{answer="passed",rule=""} 0
weir_enforcer_checks_total{answer="paused",rule=""} 0
weir_enforcer_checks_total{answer="refused",rule="manual"} 0
weir_enforcer_checks_total{answer="shadow",rule="manual"} 0
weir_enforcer_checks_total{answer="without_list",rule=""} 0
`,
	} {
		if err := testutil.GatherAndCompare(r, strings.NewReader(want), name); err != nil {
			t.Error(err)
		}
	}
}
