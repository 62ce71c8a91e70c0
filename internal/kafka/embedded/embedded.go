// Package embedded runs a Kafka broker in the process of a test: kfake, on a loopback port, with its data on disk.
package embedded

import (
	"cmp"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Config configures the broker.
type Config struct {
	Folder string // of its data
	Listen string // a loopback host:port; "" is a free port
}

// A Broker is a running one.
type Broker struct {
	cluster *kfake.Cluster
	stop    chan struct{}
	running sync.WaitGroup
}

// Open starts a broker on the folder's data.
func Open(config Config) (*Broker, error) {
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(1),
		kfake.DataDir(config.Folder),
		kfake.ListenFn(func(network, _ string) (net.Listener, error) {
			return net.Listen(network, cmp.Or(config.Listen, "127.0.0.1:0"))
		}),
	)
	if err != nil {
		return nil, fmt.Errorf("starting the embedded broker on %s: %w", config.Folder, err)
	}

	b := &Broker{cluster: cluster, stop: make(chan struct{})}
	b.running.Go(b.retain)
	return b, nil
}

// Address returns the host:port of the broker.
func (b *Broker) Address() string { return b.cluster.ListenAddrs()[0] }

// retain deletes old records: kfake does so by itself only after a topic has changed.
func (b *Broker) retain() {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			b.cluster.ApplyRetention()
		case <-b.stop:
			return
		}
	}
}

// Close ends the broker; its records are on the disk then.
func (b *Broker) Close() {
	close(b.stop)
	b.running.Wait()
	b.cluster.Close()
}
