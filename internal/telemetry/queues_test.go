package telemetry

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// Queues of several parts share the metrics of one registry.
func TestQueues(t *testing.T) {
	r := prometheus.NewRegistry()
	NewQueue(r, "one").Depth.Set(3)
	two := NewQueue(r, "two")
	two.Capacity.Set(7)
	two.Dropped.Inc()
	NewQueue(nil, "none").Dropped.Inc()
	const want = `
		# HELP weir_queue_capacity How much may wait in a queue, in the unit of its depth.
		# TYPE weir_queue_capacity gauge
		weir_queue_capacity{queue="one"} 0
		weir_queue_capacity{queue="two"} 7
		# HELP weir_queue_depth What waits in a queue.
		# TYPE weir_queue_depth gauge
		weir_queue_depth{queue="one"} 3
		weir_queue_depth{queue="two"} 0
		# HELP weir_queue_dropped_total What found no room in a queue and was dropped.
		# TYPE weir_queue_dropped_total counter
		weir_queue_dropped_total{queue="one"} 0
		weir_queue_dropped_total{queue="two"} 1
	`
	if err := testutil.GatherAndCompare(r, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(r); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}
