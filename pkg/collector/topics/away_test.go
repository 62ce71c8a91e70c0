package topics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"weir/test/metric"
	"weir/test/wait"
)

// A flaky dialer's connections can be taken away.
type flaky struct {
	mu    sync.Mutex
	away  bool
	conns []net.Conn
}

func (f *flaky) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return nil, errors.New("nobody is there")
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	f.conns = append(f.conns, conn)
	return conn, err
}

func (f *flaky) set(away bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = away
	for _, conn := range f.conns {
		conn.Close()
	}
	f.conns = nil
}

// readFlaky is read with brokers that can be taken away, and waits until the source has caught up. The function known waits
// until the source has caught up and its lag is known, or neither.
func (b *bench) readFlaky() (c *running, f *flaky, known func(bool)) {
	b.t.Helper()
	f = &flaky{}
	b.config.Dial = f.Dial
	registry := prometheus.NewRegistry()
	c = b.read(func(c *reading) { c.Metrics = registry })
	b.config.Dial = nil
	known = func(is bool) {
		b.t.Helper()
		wait.Until(b.t, fmt.Sprintf("it to have caught up: %t", is), func() bool {
			caughtUp := c.Status().CaughtUp
			_, lags := metric.Value(b.t, registry, "weir_collector_lag_records")
			return caughtUp == is && (lags == 1) == is
		})
	}
	known(true)
	return c, f, known
}

// While Kafka is away, the number of records that wait is not known: a topic's source has not caught up, and it has no lag.
func TestALagWhileKafkaIsAway(t *testing.T) {
	t.Parallel()
	b := newBench(t, embedded(t), 2).filled(10)
	_, f, known := b.readFlaky()
	f.set(true)
	known(false)
	f.set(false)
	known(true)
}
