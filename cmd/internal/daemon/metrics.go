package daemon

import "weir/internal/telemetry"

// queue adds metrics for the length and the capacity of a queue.
func (p *Process) queue(name string, capacity float64, depth func() float64) {
	telemetry.Queue(p.Metrics, name, capacity, depth)
}
