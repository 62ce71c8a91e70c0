package rabbit

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"weir/pkg/collector/ordered"
)

const (
	queuePrefetch = 2000     // messages that the server sends before they are acknowledged
	untakenBytes  = 32 << 20 // of messages that have come and wait to be read

	stuck = 100 * time.Millisecond // without a message, though there is no room
)

// A queue is a classic or a quorum queue. Its messages are acknowledged, and so taken out of it, once Kafka has their
// hits. Those that were not are delivered again when the connection or the process ends. So each counts at least once.
//
// A message has no place in a queue, so positions are ours. They are never used twice, because each consumer begins at the
// time of the clock, in microseconds, if that is later than the position before it.
//
// Bounds. 2,000 messages are not acknowledged. RabbitMQ has no bound on their bytes: so while 32 MiB of them wait to be
// read, its connection is not. Questions about the queue have a connection of their own.
type queue struct {
	server, questions link
	waiting           *waiting
	deliveries        <-chan amqp.Delivery
	at                int64 // the position after the last message that was read
	ready             int64 // messages that the server had and did not send, when it was asked
	asked             time.Time
	over              <-chan *amqp.Error // why the server has ended the channel of the consumer
	remarks           string             // for the next page

	mu      sync.Mutex
	channel *amqp.Channel // of the consumer; nil: there is none
	base    int64         // the position before its first message
}

func newQueue(o Options) *queue {
	q := &queue{server: link{options: o}, questions: link{options: o}, waiting: newWaiting()}
	q.server.wrap = func(conn net.Conn) net.Conn {
		q.waiting = newWaiting()
		return &held{conn, q.waiting}
	}
	return q
}

func (q *queue) String() string { return q.server.options.Queue }

// Close ends the connections.
func (q *queue) Close() {
	q.stop()
	q.questions.close()
}

// stop ends the consumer and its connection. The server has the acknowledgements that were sent, and delivers the other
// messages again.
func (q *queue) stop() {
	q.mu.Lock()
	consumes := q.channel != nil
	q.channel = nil
	q.mu.Unlock()

	q.waiting.end() // for the answer
	var discarding sync.WaitGroup
	if consumes {
		discarding.Go(func() {
			for range q.deliveries {
			}
		})
	}
	q.server.close()
	discarding.Wait()
}

// Extent looks at the queue. It has no identity, and needs none.
func (q *queue) Extent(ctx context.Context, was *ordered.Known) (e ordered.Extent, err error) {
	q.stop()
	if was != nil {
		e.First.Position = was.Position
	}
	if err = q.ask(ctx); err == nil {
		err = q.questions.within(ctx, q.isNoStream)
	}
	e.Last.Position = e.First.Position + q.ready
	return e, q.questions.explain(err)
}

// Since is the place before all messages: a queue has none that were read before.
func (q *queue) Since(context.Context, time.Time) (ordered.Place, error) {
	return ordered.Place{}, nil
}

// ask asks the server how many messages wait.
func (q *queue) ask(ctx context.Context) error {
	return q.questions.within(ctx, func() error {
		channel, err := q.questions.conn.Channel()
		if err != nil {
			return err
		}
		defer func() { _ = channel.Close() }() // the server has closed it after an error
		state, err := channel.QueueDeclarePassive(q.server.options.Queue, true, false, false, false, nil)
		q.ready, q.asked = int64(state.Messages), time.Now()
		return err
	})
}

// isNoStream fails for a stream: to acknowledge its messages removes none, and they would be read from its end.
func (q *queue) isNoStream() error {
	channel, err := q.questions.conn.Channel()
	if err != nil {
		return err
	}
	defer func() { _ = channel.Close() }()
	if err := channel.Qos(1, 0, false); err != nil {
		return err
	}
	_, err = channel.Consume(q.server.options.Queue, "", false, false, false, false, amqp.Table{offsetHeader: "next"})
	switch {
	case err == nil:
		return errors.New("the queue is a stream, which is read without taking messages out of it; leave out acknowledge")
	case noStream(err):
		return nil
	}
	return err
}

// Read returns the messages that have come.
func (q *queue) Read(ctx context.Context, after ordered.Place) (ordered.Page, error) {
	page, err := q.read(ctx, after)
	if err == nil || ctx.Err() != nil { // then those that were read are still to be acknowledged
		page.Remarks, q.remarks = q.remarks, ""
		return page, err
	}
	why := q.server.explain(err)
	if errors.Is(err, errClosed) && !q.server.conn.IsClosed() {
		why = ordered.ErrOther // perhaps with its queue
		select {
		case fault := <-q.over:
			if fault != nil {
				q.remarks = "the server had ended the consumer: " + fault.Reason
			}
		default:
		}
	}
	q.stop()
	return page, why
}

func (q *queue) read(ctx context.Context, after ordered.Place) (page ordered.Page, err error) {
	if q.channel == nil || q.at != after.Position {
		q.stop()
		if err := q.server.within(ctx, func() error { return q.consume(after.Position) }); err != nil {
			return page, err
		}
	}
	page.Start = q.at

	size := 0
	for len(page.Entries) < pageMessages && size < pageBytes {
		d, err := q.next(ctx, len(page.Entries) == 0)
		if err != nil {
			return page, err
		}
		if d == nil {
			break
		}
		q.at = q.base + int64(d.DeliveryTag)
		entry := ordered.Entry{Value: d.Body, After: ordered.Place{Position: q.at}}
		size += len(d.Body)
		if len(d.Body) > ordered.LongestEntry {
			entry.Value, entry.Long = bytes.Clone(d.Body[:sampleOfLong]), true
		}
		if d.Redelivered {
			page.Again++
		}
		page.Entries = append(page.Entries, entry)
	}

	since := time.Since(q.asked)
	if since > lookEvery || len(page.Entries) == 0 && q.ready > 0 && since > waitFor/2 {
		_ = q.ask(ctx) // what makes it fail ends the consumer too, or passes
	}
	page.Waiting = q.ready
	return page, nil
}

// consume begins a consumer after a position.
func (q *queue) consume(position int64) error {
	channel, err := q.server.conn.Channel()
	if err != nil {
		return err
	}
	if err := channel.Qos(queuePrefetch, 0, false); err != nil {
		return err
	}
	q.deliveries, err = channel.Consume(q.server.options.Queue, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	q.at, q.over = max(position, time.Now().UnixMicro()), channel.NotifyClose(make(chan *amqp.Error, 1))
	q.mu.Lock()
	defer q.mu.Unlock()
	q.channel, q.base = channel, q.at
	return nil
}

// next returns the next message; nil when none comes. It waits long only where it may.
func (q *queue) next(ctx context.Context, wait bool) (*amqp.Delivery, error) {
	patience := soon
	if wait {
		patience = waitFor
	}
	for timer := (<-chan time.Time)(nil); ; {
		select {
		case d, open := <-q.deliveries:
			q.waiting.took(len(d.Body))
			return taken(d, open)
		default:
		}
		if timer == nil {
			timer = time.After(patience)
		}
		select {
		case d, open := <-q.deliveries:
			q.waiting.took(len(d.Body))
			return taken(d, open)
		case <-q.waiting.full: // one may be on its way through the library
			select {
			case d, open := <-q.deliveries:
				q.waiting.took(len(d.Body))
				return taken(d, open)
			case <-time.After(stuck): // none is: this is one that has not come completely
				q.waiting.tookAll()
			}
		case <-timer:
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Acknowledge takes the messages up to a position out of the queue.
func (q *queue) Acknowledge(position int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.channel == nil || position <= q.base { // it belongs to a consumer that has ended
		return
	}
	_ = q.channel.Ack(uint64(position-q.base), true) // if that fails, they are delivered again
}
