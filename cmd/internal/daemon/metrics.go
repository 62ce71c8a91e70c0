package daemon

import "weir/internal/telemetry"

// queue tells of a queue in the metrics: how much it holds and how much it can.
func (p *Process) queue(name string, capacity float64, depth func() float64) {
	telemetry.Queue(p.Metrics, name, capacity, depth)
}
