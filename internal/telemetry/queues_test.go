package telemetry

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// Queues of several parts share the metrics of one registry, and a new one of the same name replaces the old.
func TestQueues(t *testing.T) {
	r := prometheus.NewRegistry()
	for _, depth := range []float64{1, 3} {
		Queue(r, "one", 7, func() float64 { return depth })
	}
	Queue(r, "two", 8, func() float64 { return 0 })
	Dropped(r, "one").Inc()
	Dropped(r, "one").Inc()
	Dropped(r, "two-socket").Inc()
	Queue(nil, "none", 1, nil)
	Dropped(nil, "none").Inc()
	const want = `
		# HELP weir_queue_capacity Capacity of the queue in bytes.
		# TYPE weir_queue_capacity gauge
		weir_queue_capacity{queue="one"} 7
		weir_queue_capacity{queue="two"} 8
		# HELP weir_queue_depth Bytes in the queue.
		# TYPE weir_queue_depth gauge
		weir_queue_depth{queue="one"} 3
		weir_queue_depth{queue="two"} 0
		# HELP weir_queue_dropped_total Items dropped because the queue was full.
		# TYPE weir_queue_dropped_total counter
		weir_queue_dropped_total{queue="one"} 2
		weir_queue_dropped_total{queue="two"} 0
		weir_queue_dropped_total{queue="two-socket"} 1
	`
	if err := testutil.GatherAndCompare(r, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(r); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}
