package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

// A coordinator is how kafka-go's ConsumerGroup reaches the broker that leads its group.
//
// Its connections are made only once the coordinator is known and answers for the group. A ConsumerGroup that is
// refused a connection forgets its member id, and has to wait for its own ghost's session to end; one that is made
// to wait comes back under the same id.
type coordinator struct {
	client *Client
	group  string
	topic  string          // one of the group's
	ctx    context.Context // ends the waiting
	cancel context.CancelFunc

	mu     sync.Mutex
	open   []net.Conn
	closed bool
}

func newCoordinator(c *Client, group Group) *coordinator {
	found := &coordinator{client: c, group: group.Name}
	for topic := range group.Topics {
		found.topic = topic
	}
	found.ctx, found.cancel = context.WithCancel(context.Background())
	return found
}

// dial connects to the coordinator, whatever address is asked for, as soon as there is one.
func (f *coordinator) dial(context.Context, string, string) (net.Conn, error) {
	var t trouble
	for {
		address, err := f.find(f.ctx)
		if err == nil {
			var conn net.Conn
			if conn, err = f.client.dialer.dial(f.ctx, "tcp", address); err == nil {
				return f.remember(conn)
			}
		}

		if f.ctx.Err() != nil {
			return nil, faultf(ErrClosed, "the group %s was left", f.group)
		}
		pause := t.another(time.Now())
		if !isSettling(err) || time.Since(t.since) > requestTimeout {
			f.client.faults.note("group", fmt.Errorf("looking for the coordinator of group %s: %w", f.group, f.client.cause(f.ctx, err)))
		}

		sleep(f.ctx, pause)
	}
}

// find asks who coordinates the group, and that broker whether it has the group's offsets: it does not while it
// loads them, and would refuse members then.
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
		return nil, faultf(ErrClosed, "the group %s was left", f.group)
	}
	f.open = append(f.open[max(0, len(f.open)-3):], conn) // kafka-go has closed older ones
	return conn, nil
}

// close ends the waiting and every connection.
func (f *coordinator) close() {
	f.cancel()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for _, conn := range f.open {
		conn.Close()
	}
}

// keepAlive sends the heartbeats that kafka-go does not send any more once a generation has ended, until all its
// owners have returned.
func (m *member) keepAlive(generation *kafkago.Generation, returned <-chan struct{}) {
	every := time.NewTicker(min(heartbeatEvery, m.group.Session/3))
	defer every.Stop()
	var beating *heart
	defer func() {
		if beating != nil {
			beating.stop()
		}
	}()

	for {
		select {
		case <-returned:
			return
		case <-every.C:
		}

		if beating == nil {
			beating = m.newHeart(generation)
		}
		if err := beating.beat(); err != nil {
			m.client.faults.note("group", fmt.Errorf("keeping our place in group %s: %w", m.group.Name, err))
		}
	}
}

// A heart sends heartbeats to a group's coordinator. kafka-go sends one to any broker unless it is told an address,
// and keeps connections to that in a pool of its own, so a heart has a transport of its own.
type heart struct {
	member     *member
	generation *kafkago.Generation
	transport  *kafkago.Transport
	kafka      *kafkago.Client
}

func (m *member) newHeart(generation *kafkago.Generation) *heart {
	transport := m.client.newTransport()
	return &heart{member: m, generation: generation, transport: transport, kafka: &kafkago.Client{Timeout: requestTimeout, Transport: transport}}
}

func (h *heart) stop() { h.transport.CloseIdleConnections() }

func (h *heart) beat() error {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	address, err := h.member.coordinator.find(ctx)
	if err != nil {
		return h.member.client.cause(ctx, err)
	}

	response, err := h.kafka.Heartbeat(ctx, &kafkago.HeartbeatRequest{Addr: kafkago.TCP(address),
		GroupID: h.generation.GroupID, GenerationID: h.generation.ID, MemberID: h.generation.MemberID})
	if err == nil {
		err = swapped(response)
	}
	if err != nil && !errors.Is(err, kafkago.RebalanceInProgress) {
		return h.member.client.cause(ctx, err)
	}

	return nil
}

// swapped is the error in a heartbeat's answer. kafka-go reads its two fields in the wrong order, so the error is
// in the lower half of the throttle.
func swapped(response *kafkago.HeartbeatResponse) error {
	if code := int16(response.Throttle.Milliseconds()); code != 0 {
		return kafkago.Error(code)
	}
	return nil
}
