// Package rabbit reads queues of RabbitMQ as logs of package ordered: a stream, which is a queue of the type stream, and
// classic and quorum queues (queue.go).
//
// It takes nothing out of a stream: what it acknowledges there only asks the server for more.
//
// The position of a message is its offset and 1. A stream has no identity. One that was made again shows by the message
// that was read last: another one is at its offset, or the stream ends before it. A stream whose server lost its last
// messages looks the same.
//
// The server cannot send some messages. The stream passes over these (unsent.go).
//
// The server does not tell how long a stream is. So another consumer looks at its last messages: at the beginning, and
// once a second while many messages come.
//
// Bounds. A page has at most 2,000 messages, or about 1 MiB. At most 100 messages more are on their way; the server
// bounds how long each is.
package rabbit

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"weir/pkg/collector/ordered"
)

const (
	prefetch     = 100 // messages that the server sends before they are acknowledged
	ackEvery     = prefetch / 2
	pageMessages = 2000
	pageBytes    = 1 << 20
	waitFor      = 500 * time.Millisecond
	lookEvery    = time.Second
	soon         = time.Millisecond // in which a message comes that is on its way
	sampleOfLong = 1 << 10
)

// Options name a queue.
type Options struct {
	URL      string // amqp://host:5672/vhost or amqps://, without a user
	Queue    string
	TLS      *tls.Config
	User     string                 // empty is guest
	Password func() (string, error) // for each new connection

	// Acknowledge means that the queue is a classic or a quorum queue, and that its messages are taken out of it.
	Acknowledge bool
}

// Open makes a log of a queue. It does not connect yet.
func Open(o Options) (ordered.Log, error) {
	if o.Acknowledge {
		return newQueue(o), nil
	}
	return &stream{server: link{options: o}}, nil
}

// A stream is a queue, and the consumer that reads it.
type stream struct {
	server link

	channel    *amqp.Channel // of the consumer; nil: there is none
	deliveries <-chan amqp.Delivery
	at         int64          // the position after the last message of the consumer
	unread     int            // messages that are not acknowledged
	held       *amqp.Delivery // it belongs to the next page
	end        int64          // the position after the last message, when it was asked for
	looked     time.Time      // then
	prefetch   int            // of the consumer
	careful    int64          // messages up to this position are asked for one by one
	unsent     unsent
}

func (s *stream) String() string { return s.server.options.Queue }

// Close ends the connection.
func (s *stream) Close() { s.server.close() }

const offsetHeader = "x-stream-offset"

// offsetOf returns the offset of a message. The server writes it, also over a header of that name that a publisher sent
// (see bare for several).
func offsetOf(d *amqp.Delivery) (int64, error) {
	offset, ok := d.Headers[offsetHeader].(int64)
	if !ok || offset < 0 || offset == 1<<63-1 {
		return 0, errors.New("a message has no offset: the queue is not a stream")
	}
	return offset, nil
}

// consume begins a consumer at an offset, a time, or first or last. The server sends so many messages before they are
// acknowledged.
func (s *stream) consume(from any, prefetch int) (*amqp.Channel, <-chan amqp.Delivery, error) {
	was := s.server.conn
	if err := s.server.connect(); err != nil {
		return nil, nil, err
	}
	if s.server.conn != was {
		s.channel = nil
	}
	channel, err := s.server.conn.Channel()
	if err != nil {
		return nil, nil, err
	}
	if err := channel.Qos(prefetch, 0, false); err != nil {
		return nil, nil, err
	}
	deliveries, err := channel.Consume(s.server.options.Queue, "", false, false, false, false, amqp.Table{offsetHeader: from})
	return channel, deliveries, err
}

// A found message is one at which another consumer has looked.
type found struct {
	offset int64
	mark   string
}

// look returns the first message from a place on, or the last of all that come; nil when none comes.
func (s *stream) look(ctx context.Context, from any, last bool) (f *found, err error) {
	channel, deliveries, err := s.consume(from, 1) // it would fail for those behind too
	if err != nil {
		return nil, err
	}
	defer func() { _ = channel.Close() }() // the consumer ends with it
	for patience := time.After(callPatience); ; {
		select {
		case d, open := <-deliveries:
			if !open {
				return f, errClosed
			}
			offset, err := offsetOf(&d)
			if err != nil {
				return f, err
			}
			f = &found{offset, markOf(offset, d.Body)}
			if !last {
				return f, nil
			}
			if err := d.Ack(false); err != nil {
				return f, err
			}
		case <-time.After(waitFor):
			return f, nil
		case <-patience:
			return f, nil
		case <-ctx.Done():
			return f, context.Cause(ctx)
		}
	}
}

var errClosed = errors.New("the server ended the consumer")

// Extent looks at the stream.
func (s *stream) Extent(ctx context.Context, was *ordered.Known) (ordered.Extent, error) {
	s.stop()
	e, err := s.extent(ctx, was)
	return e, s.server.explain(err)
}

func (s *stream) extent(ctx context.Context, was *ordered.Known) (e ordered.Extent, err error) {
	first, err := s.look(ctx, "first", false)
	if err != nil && !s.server.failed() {
		return e, err
	}
	if first != nil {
		e.First.Position = first.offset
	}
	err = s.lookAtEnd(ctx, true)
	if err != nil && s.server.failed() {
		err = s.estimateEnd(e.First.Position, was)
	}
	if err != nil {
		return e, err
	}
	e.Last.Position = max(e.First.Position, s.end)
	if was == nil || was.Position == 0 {
		return e, nil
	}

	e.Begin = e.First
	if s.end < was.Position {
		e.Other = fmt.Sprintf("the stream was deleted and made again, or lost messages: it has %d, and was read up to %d", s.end, was.Position)
		return e, nil
	}
	offset, err := readMark(was.ID)
	if err != nil || was.ID == "" {
		return e, err
	}
	now, err := s.look(ctx, offset, false)
	if err != nil && s.server.failed() { // that message was deleted, and the first one that is left cannot be sent
		return e, nil
	}
	if now != nil && now.offset == offset && now.mark != was.ID {
		e.Other = fmt.Sprintf("the stream was deleted and made again, or lost messages: it has another message at %d than was read", offset)
	}
	return e, err
}

// lookAtEnd finds out how long the stream is: exactly, or at once up to the messages that the server keeps together.
func (s *stream) lookAtEnd(ctx context.Context, exactly bool) error {
	s.looked = time.Now()
	last, err := s.look(ctx, "last", exactly)
	if err == nil {
		s.end = 0
	}
	if last != nil {
		s.end = last.offset + 1
	}
	return err
}

// estimateEnd finds out how long the stream is when the server cannot send its last messages: at least as long as it was
// read, else as many messages as the server counts, which may be some fewer.
func (s *stream) estimateEnd(first int64, was *ordered.Known) error {
	if was != nil {
		s.end = max(s.end, was.Position)
		return nil
	}
	if err := s.server.connect(); err != nil {
		return err
	}
	channel, err := s.server.conn.Channel()
	if err != nil {
		return err
	}
	defer func() { _ = channel.Close() }() // the server has closed it after an error
	state, err := channel.QueueDeclarePassive(s.server.options.Queue, true, false, false, false, nil)
	s.end = first + int64(state.Messages)
	return err
}

// Since returns the place before the first message of the part of the stream that is not older than a time.
func (s *stream) Since(ctx context.Context, at time.Time) (ordered.Place, error) {
	first, err := s.look(ctx, at, false)
	if first != nil {
		return ordered.Place{Position: first.offset}, nil
	}
	return ordered.Place{Position: s.end}, s.server.explain(err)
}

// stop ends the consumer.
func (s *stream) stop() {
	if s.channel != nil {
		_ = s.channel.Close() // perhaps the server has closed it
	}
	s.channel, s.held, s.unread = nil, nil, 0
}

// Read returns the messages after a place.
func (s *stream) Read(ctx context.Context, after ordered.Place) (ordered.Page, error) {
	page, err := s.read(ctx, after)
	if err != nil {
		s.stop()
	}
	if err != nil && s.server.failed() {
		return s.afterFailure(ctx, page)
	}
	if errors.Is(err, errClosed) && !s.server.conn.IsClosed() {
		return page, ordered.ErrOther // perhaps with its queue
	}
	return page, s.server.explain(err)
}

func (s *stream) read(ctx context.Context, after ordered.Place) (page ordered.Page, err error) {
	most := prefetch
	if after.Position < s.careful {
		most = 1
	}
	if s.channel == nil || s.at != after.Position || s.prefetch != most {
		s.stop()
		s.at, s.prefetch = after.Position, most // first: afterFailure needs them
		if s.channel, s.deliveries, err = s.consume(after.Position, most); err != nil {
			return page, err
		}
	}

	bytes := 0
	for len(page.Entries) < pageMessages && bytes < pageBytes {
		d, err := s.next(ctx, len(page.Entries) == 0)
		if err != nil {
			return page, err
		}
		if d == nil {
			break
		}
		offset, err := offsetOf(d)
		if err != nil {
			return page, err
		}
		if offset > s.at && len(page.Entries) > 0 {
			s.held = d
			break
		}
		if err := s.acknowledge(d); err != nil {
			return page, err
		}
		if offset < s.at {
			continue
		}
		if offset > s.at {
			page.Start = offset
			page.Lost, err = s.deleted(ctx, offset)
			// It fails at a first message that it cannot send. If that were after s.at, it would have failed at it before it
			// sent this one: so none was deleted.
			if err != nil && s.server.failed() {
				s.stop()
				page.Waiting = max(1, s.end-offset)
				return page, nil
			}
			if err != nil {
				return page, err
			}
		}
		s.at = offset + 1
		entry := ordered.Entry{Value: d.Body, After: ordered.Place{Position: s.at, ID: markOf(offset, d.Body)}}
		bytes += len(d.Body)
		if len(d.Body) > ordered.LongestEntry {
			entry.Value, entry.Long = d.Body[:sampleOfLong:sampleOfLong], true
		}
		page.Entries = append(page.Entries, entry)
	}
	if len(page.Entries) > prefetch && time.Since(s.looked) > lookEvery {
		err := s.lookAtEnd(ctx, false)
		if err != nil && !s.server.failed() {
			return page, err
		}
		if err != nil { // it has ended the connection of the consumer, too
			s.stop()
		}
	}
	page.Waiting = max(0, s.end-s.at)
	return page, nil
}

// deleted is how many messages were deleted between the position and the offset of the next message. Not all offsets have
// one: some are of what the server keeps for consumers and publishers.
func (s *stream) deleted(ctx context.Context, next int64) (int64, error) {
	first, err := s.look(ctx, "first", false)
	if err != nil {
		return 0, err
	}
	if first != nil {
		next = min(next, first.offset)
	}
	return max(0, next-s.at), nil
}

// next returns the next message; nil when none comes. It waits long only where it may.
func (s *stream) next(ctx context.Context, wait bool) (*amqp.Delivery, error) {
	if d := s.held; d != nil {
		s.held = nil
		return d, nil
	}
	select {
	case d, open := <-s.deliveries:
		return taken(d, open)
	default:
	}
	patience := waitFor
	if !wait {
		patience = soon
	}
	select {
	case d, open := <-s.deliveries:
		return taken(d, open)
	case <-time.After(patience):
		return nil, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func taken(d amqp.Delivery, open bool) (*amqp.Delivery, error) {
	if !open {
		return nil, errClosed
	}
	return &d, nil
}

// acknowledge has the server send more.
func (s *stream) acknowledge(d *amqp.Delivery) error {
	if s.unread++; s.unread < min(ackEvery, s.prefetch) {
		return nil
	}
	s.unread = 0
	return d.Ack(true)
}

// markOf names a message: its offset, and a hash of its body.
func markOf(offset int64, body []byte) string {
	return strconv.FormatInt(offset, 10) + ":" + strconv.FormatUint(xxhash.Sum64(body), 16)
}

// readMark returns the offset in a mark; an empty one has 0.
func readMark(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	offset, _, _ := strings.Cut(text, ":")
	number, err := strconv.ParseInt(offset, 10, 64)
	if err != nil || number < 0 {
		return 0, fmt.Errorf("%q is not a message of a stream", text)
	}
	return number, nil
}
