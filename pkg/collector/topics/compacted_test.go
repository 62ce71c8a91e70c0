package topics

import (
	"testing"

	"weir/test/wait"
)

// A collector reports a topic if Kafka keeps only the last record of each key there: its requests can vanish.
func TestACompactedTopicIsReported(t *testing.T) {
	for _, one := range []*bench{newBench(t, embedded(t), 2), newAloneBench(t, embedded(t), 2)} {
		one.settings = map[string]string{"cleanup.policy": "compact"}
		one.make()
		c := one.start(one.sink)
		wait.Text(t, c.said, "set its cleanup.policy to delete")
		c.settle(t)
	}
}
