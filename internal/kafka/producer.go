package kafka

import (
	"cmp"
	"context"
	"sync"
	"time"

	"weir/internal/sleep"
	"weir/internal/topic"
)

const defaultQueueBytes = 64 << 20

// A Producer writes messages to a topic, with acks=all, until the brokers have them. It returns a message with an error
// only when it is larger than Kafka's default limit (ErrTooLarge), or at Close (ErrClosed: it may have been written all
// the same). A message that the topic's settings refuse waits until they are right.
//
// Each partition has one request in flight, so its order is kept. A request takes the messages that queued during the
// previous one, for all partitions of a broker together, and never waits for more. A failed batch is sent again after a
// pause that grows to two seconds. A partition that fails is sent separately, so that it does not delay others.
type Producer struct {
	client *Client
	config topic.AppenderConfig
	wake   chan struct{} // there is something to do: holds one
	ended  chan struct{} // run has returned

	abandon context.CancelFunc // cancels requests when Close stops waiting

	mu     sync.Mutex
	queues [][]topic.Message // by partition, including messages that are being sent
	held   int64             // bytes in them
	room   chan struct{}
	closed bool
	fault  error // of the last try that failed
	tried  time.Time
}

// OpenProducer starts a producer. Close ends it.
func (c *Client) OpenProducer(config topic.AppenderConfig) *Producer {
	config.QueueBytes = cmp.Or(config.QueueBytes, defaultQueueBytes)
	p := &Producer{client: c, config: config, wake: make(chan struct{}, 1), ended: make(chan struct{}),
		queues: make([][]topic.Message, config.Partitions), room: make(chan struct{})}
	ctx, abandon := context.WithCancel(context.Background())
	p.abandon = abandon
	go func() {
		defer close(p.ended)
		newDispatcher(p).run(ctx)
	}()
	return p
}

// Send accepts all the messages, in their order. While the queue is full it waits; when the context ends first, it
// accepts none. The queue is full when it has QueueBytes or more, so one call may exceed them.
func (p *Producer) Send(ctx context.Context, messages ...topic.Message) error {
	for {
		room, err := p.enqueue(messages)
		if room == nil {
			return err
		}
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// TrySend is Send that returns ErrFull instead of waiting.
func (p *Producer) TrySend(messages ...topic.Message) error {
	room, err := p.enqueue(messages)
	if room != nil {
		return topic.Errorf(topic.ErrFull, "the queue for %s is full: %d bytes wait for Kafka", p.config.Topic, p.Held())
	}
	return err
}

// enqueue queues the messages, or returns the channel to wait for when there is no room.
func (p *Producer) enqueue(messages []topic.Message) (<-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, topic.Errorf(topic.ErrClosed, "the producer for %s is closed", p.config.Topic)
	}

	for i := range messages {
		if partition := messages[i].Partition; partition < 0 || partition >= len(p.queues) {
			return nil, topic.Errorf(topic.ErrPartitions, "%s has no partition %d: it has %d", p.config.Topic, partition, len(p.queues))
		}
	}

	// Checked before the first is queued: the messages of a call are accepted together or not at all.
	if p.held >= p.config.QueueBytes {
		return p.room, nil
	}
	for _, m := range messages {
		p.queues[m.Partition] = append(p.queues[m.Partition], m)
		p.held += int64(m.Size())
	}

	sleep.Wake(p.wake)
	return nil, nil
}

// release removes the first messages of a partition, which are done, from its queue.
func (p *Producer) release(partition int, messages []topic.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wasFull := p.held >= p.config.QueueBytes
	for i := range messages {
		p.held -= int64(messages[i].Size())
	}

	queue := p.queues[partition]
	clear(queue[:len(messages)]) // the array stays, so it must not keep the messages alive
	p.queues[partition] = queue[len(messages):]
	if wasFull && p.held < p.config.QueueBytes {
		close(p.room)
		p.room = make(chan struct{})
	}
}

// Held returns how many bytes of messages wait or are being sent.
func (p *Producer) Held() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

// faultShown is how long a fault is shown. A failed request is tried again more often than that.
const faultShown = 10 * time.Second

// Fault is why messages that wait could not be written a moment ago; nil where they could, or none wait.
func (p *Producer) Fault() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == 0 || time.Since(p.tried) > faultShown {
		return nil
	}
	return p.fault
}

func (p *Producer) noteFault(err error) {
	p.client.errorLog.note("produce", err)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault, p.tried = err, time.Now()
}

// Close accepts no more messages and returns when all were written. When the context ends first, the others are done
// with ErrClosed, and the error has their number.
func (p *Producer) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	close(p.room) // wakes the callers that wait for room; there will be none
	p.room = make(chan struct{})
	p.mu.Unlock()
	sleep.Wake(p.wake)
	select {
	case <-p.ended:
	case <-ctx.Done():
		p.abandon()
		<-p.ended
	}

	p.abandon()

	// Answer the messages that are left with ErrClosed, and return an error with their number.
	count := 0
	for partition, queue := range p.queues {
		for i := range queue {
			if queue[i].Done != nil {
				queue[i].Done(-1, topic.Errorf(topic.ErrClosed, "the producer for %s was closed before Kafka had this", p.config.Topic))
			}
		}
		count += len(queue)
		p.release(partition, queue)
	}

	if count > 0 {
		return topic.Errorf(topic.ErrClosed, "%d messages for %s were not acknowledged", count, p.config.Topic)
	}
	return nil
}

// done answers messages of one partition in their order; base is the first one's offset.
func done(messages []topic.Message, base int64, err error) {
	for i := range messages {
		if messages[i].Done == nil {
			continue
		}
		if err != nil {
			messages[i].Done(-1, err)
			continue
		}
		messages[i].Done(base+int64(i), nil)
	}
}
