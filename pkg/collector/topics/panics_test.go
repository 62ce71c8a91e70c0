package topics

import (
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/test/mine"
	"weir/test/wait"
)

// A partition whose reading panics is counted once, and so are those of others.
func TestAPartitionThatPanicsIsCountedOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, config kafka.Config) {
		b := newBench(t, config, 3)
		explosive := &mine.Mine{Armed: 8, Every: 300}
		b.source.Only = explosive.Only
		b.make()
		b.produce(3000)
		c := b.start(b.sink, func(c *reading) { c.RestartAfter = 5 * time.Millisecond })
		for !explosive.Exploded() {
			b.produce(50)
		}
		b.readMore(50)
		wait.Until(t, "the source to be well", func() bool { return c.Status().CaughtUp })
	})
}
