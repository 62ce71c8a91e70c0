package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/pkg/collector/ordered"
)

// Read returns the messages after a place.
func (s *stream) Read(ctx context.Context, after ordered.Place) (ordered.Page, error) {
	page, err := s.read(ctx, after)
	switch {
	case err == nil:
		return page, nil
	case errors.Is(err, jetstream.ErrConsumerDeleted), errors.Is(err, jetstream.ErrConsumerNotFound), errors.Is(err, nats.ErrNoResponders):
		if s.conn.Status() == nats.CONNECTED {
			return page, ordered.ErrOther // perhaps with its stream
		}
	}
	return page, s.explain(err)
}

func (s *stream) read(ctx context.Context, after ordered.Place) (page ordered.Page, err error) {
	if s.conn.Status() != nats.CONNECTED {
		return page, errors.New("the connection is lost")
	}
	if err := s.begin(ctx, after); err != nil {
		return page, err
	}

	bytes := 0
	if s.held != nil {
		msg := s.held
		s.held = nil
		if _, err := s.add(ctx, &page, msg, &bytes); err != nil {
			return page, err
		}
	}
	for len(page.Entries) < pageMessages && bytes < pageBytes {
		msg, err := s.next(ctx, len(page.Entries) == 0)
		if ended := msg == nil && s.batch == nil; ended && len(page.Entries) == 0 && (err != nil || s.waiting > 0) {
			if found, _ := s.addHidden(ctx, &page); found {
				return page, nil
			}
		}
		if err != nil && len(page.Entries) > 0 {
			break // the next call meets it again, or what is hidden behind it
		}
		if err != nil {
			return page, err
		}
		if msg == nil && s.batch == nil && s.waiting > 0 && !s.single && len(page.Entries) > 0 {
			continue
		}
		if msg == nil {
			break
		}
		if more, err := s.add(ctx, &page, msg, &bytes); err != nil || !more {
			return page, err
		}
	}
	page.Waiting = s.waiting
	return page, nil
}

// begin makes a consumer that begins at a place, unless there is one.
func (s *stream) begin(ctx context.Context, after ordered.Place) error {
	if s.consumer != nil && s.at == after.Position {
		return nil
	}
	s.consumer, s.batch, s.held = nil, nil, nil
	consumer, err := s.js.CreateConsumer(ctx, s.options.Stream, s.consumerFrom(jetstream.DeliverByStartSequencePolicy, uint64(after.Position)+1, nil))
	if err != nil {
		return err
	}
	s.consumer, s.got, s.at, s.single = consumer, 0, after.Position, false
	s.waiting = int64(consumer.CachedInfo().NumPending)
	return nil
}

// next returns the next message; nil when none is there. It waits for one only where it may, and not for long.
func (s *stream) next(ctx context.Context, wait bool) (jetstream.Msg, error) {
	if s.batch == nil {
		if !wait && s.waiting == 0 {
			return nil, nil
		}
		if err := s.ask(); err != nil {
			return nil, err
		}
	}
	if !wait && s.waiting == 0 {
		select {
		case msg, open := <-s.batch.Messages():
			return s.taken(msg, open)
		default:
			return nil, nil
		}
	}
	select {
	case msg, open := <-s.batch.Messages():
		return s.taken(msg, open)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// ask asks for messages. A message longer than what is asked for is asked for alone.
func (s *stream) ask() (err error) {
	options := []jetstream.FetchOpt{jetstream.FetchMaxWait(waitFor)}
	messages := askedMessages
	if s.single {
		messages = 1
	} else {
		options = append(options, jetstream.FetchMaxBytes(askedBytes))
	}
	s.batch, err = s.consumer.Fetch(messages, options...)
	s.single = s.waiting > 0 // unless one comes
	return err
}

func (s *stream) taken(msg jetstream.Msg, open bool) (jetstream.Msg, error) {
	if open {
		s.single = false
		return msg, nil
	}
	err := s.batch.Error()
	s.batch = nil
	return nil, err
}

var errDropped = errors.New("messages were dropped on their way")

// add adds a message to a page; more is false where it begins another one.
func (s *stream) add(ctx context.Context, page *ordered.Page, msg jetstream.Msg, bytes *int) (more bool, err error) {
	about, err := msg.Metadata()
	if err != nil {
		return false, err
	}
	seq := int64(about.Sequence.Stream)
	if gap := seq - s.at - 1; gap > 0 && s.options.Subject == "" {
		if len(page.Entries) > 0 {
			s.held = msg
			page.Waiting = s.waiting
			return false, nil
		}
		if about.Sequence.Consumer == s.got+1 {
			page.Start, page.Lost = seq-1, gap
		}
	}
	if about.Sequence.Consumer != s.got+1 || seq <= s.at {
		s.consumer = nil
		if found, err := s.addHidden(ctx, page); found || err != nil {
			return false, err
		}
		return false, fmt.Errorf("%w: number %d came after %d", errDropped, about.Sequence.Consumer, s.got)
	}

	s.got, s.at, s.waiting = about.Sequence.Consumer, seq, int64(about.NumPending)
	entry := ordered.Entry{Value: msg.Data(), After: ordered.Place{Position: seq, ID: mark{about.Sequence.Stream, about.Timestamp.UnixNano()}.String()}}
	*bytes += len(entry.Value)
	if len(entry.Value) > ordered.LongestEntry {
		entry.Value, entry.Long = entry.Value[:sampleOfLong], true
	}
	page.Entries = append(page.Entries, entry)
	return true, nil
}

// A mark is a message that was read: its sequence number and its time, Unix ns.
type mark struct {
	seq  uint64
	time int64
}

func (m mark) String() string {
	return strconv.FormatUint(m.seq, 10) + ":" + strconv.FormatInt(m.time, 10)
}

// readMark reads a mark; an empty one is zero.
func readMark(text string) (m mark, err error) {
	if text == "" {
		return m, nil
	}
	seq, at, _ := strings.Cut(text, ":")
	number, err := strconv.ParseUint(seq, 10, 64)
	nanos, also := strconv.ParseInt(at, 10, 64)
	if err != nil || also != nil {
		return m, fmt.Errorf("%q is not a message of a stream", text)
	}
	return mark{number, nanos}, nil
}
