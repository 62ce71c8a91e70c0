package journald

import "time"

// LookingEvery looks for other files as often as this.
func (o Options) LookingEvery(d time.Duration) Options {
	o.lookEvery = d
	return o
}
