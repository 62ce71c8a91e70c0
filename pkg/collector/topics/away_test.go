package topics

import (
	"context"
	"errors"
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

// While Kafka is away, the number of records that wait is not known: a topic's source has not caught up, and it has no lag.
func TestALagWhileKafkaIsAway(t *testing.T) {
	t.Parallel()
	b := newBench(t, embedded(t), 2)
	b.make()
	b.produce(10)
	f := &flaky{}
	b.config.Dial = f.Dial
	registry := prometheus.NewRegistry()
	c := b.start(b.sink, func(c *reading) { c.Metrics = registry })
	b.sink.Await(t, b.want)

	known := func(is bool) func() bool {
		return func() bool {
			caughtUp := c.Status().CaughtUp
			_, lags := metric.Value(t, registry, "weir_collector_lag_records")
			return caughtUp == is && (lags == 1) == is
		}
	}
	wait.Until(t, "it to have caught up", known(true))
	f.set(true)
	wait.Until(t, "its lag to be unknown", known(false))
	f.set(false)
	wait.Until(t, "it to have caught up again", known(true))
}
