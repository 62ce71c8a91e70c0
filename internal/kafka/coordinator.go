package kafka

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/internal/sleep"
	"weir/internal/topic"
)

// A coordinator connects kafka-go's ConsumerGroup to the broker that coordinates its group.
//
// It connects only once the coordinator is known and answers for the group. A ConsumerGroup that is refused a
// connection forgets its member id, and then has to wait until the session of its former id ends. One that has to wait
// for a connection keeps its id.
type coordinator struct {
	client *Client
	group  string
	topic  string             // one of the group's
	place  *place             // released with the first connection
	end    context.CancelFunc // ends the waiting of dial

	release   sync.Once
	releasing sync.WaitGroup

	mu     sync.Mutex
	open   []net.Conn
	closed bool
}

// newCoordinator makes one; end ends the context of dial.
func newCoordinator(c *Client, group topic.Group, place *place, end context.CancelFunc) *coordinator {
	found := &coordinator{client: c, group: group.Name, place: place, end: end}
	for name := range group.Topics {
		found.topic = name
	}
	return found
}

// dial connects to the coordinator as soon as there is one.
func (f *coordinator) dial(ctx context.Context) (net.Conn, error) {
	var t trouble
	for {
		address, err := f.find(ctx)
		if err == nil {
			f.release.Do(func() { f.releasing.Go(func() { f.releasePlace(ctx) }) })
			var conn net.Conn
			if conn, err = f.client.dialer.dial(ctx, "tcp", address); err == nil {
				return f.remember(conn)
			}
		}

		if ctx.Err() != nil {
			return nil, topic.Errorf(topic.ErrClosed, "the group %s was left", f.group)
		}

		pause := t.another(time.Now())
		if !t.settles(err) {
			f.client.errorLog.note("group", fmt.Errorf("looking for the coordinator of group %s: %w", f.group, f.client.cause(ctx, err)))
		}

		sleep.For(ctx, pause)
	}
}

// releasePlace removes members that were killed from the group, once this one has asked to join. A group that had no
// member left would wait for others before it goes on: three seconds by default.
func (f *coordinator) releasePlace(ctx context.Context) {
	sleep.For(ctx, releaseAfter)
	f.place.release(ctx, f.client, f.group)
}

// find asks which broker coordinates the group, and then asks that broker whether it has the group's offsets. While it
// loads them it would refuse members.
func (f *coordinator) find(ctx context.Context) (string, error) {
	response, err := f.client.kafka.FindCoordinator(ctx, &kafkago.FindCoordinatorRequest{Key: f.group})
	if err != nil {
		return "", err
	}
	if response.Error != nil {
		return "", response.Error
	}
	if _, err := f.client.fetchCommits(ctx, f.group, f.topic, []int{0}); err != nil {
		return "", err
	}
	return net.JoinHostPort(response.Coordinator.Host, strconv.Itoa(response.Coordinator.Port)), nil
}

func (f *coordinator) remember(conn net.Conn) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		conn.Close()
		return nil, topic.Errorf(topic.ErrClosed, "the group %s was left", f.group)
	}
	f.open = append(f.open[max(0, len(f.open)-3):], conn) // kafka-go has closed older ones
	return conn, nil
}

// close ends the waiting and every connection.
func (f *coordinator) close() {
	f.end()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for _, conn := range f.open {
		conn.Close()
	}
	f.releasing.Wait()
}
