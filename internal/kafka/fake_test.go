package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"weir/internal/kafka"
)

// fake is a broker that tests can make fail, on loopback ports.
func fake(t testing.TB, options ...kfake.Opt) (*kfake.Cluster, kafka.Config) {
	t.Helper()
	cluster, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster, kafka.Config{Brokers: cluster.ListenAddrs(), Create: true}
}
