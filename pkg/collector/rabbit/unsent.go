package rabbit

import (
	"context"
	"errors"
	"time"

	"weir/pkg/collector/ordered"
)

// RabbitMQ 3.10 fails at a message that is not AMQP 1.0 with a body of data, and ends the connection. It sends nothing of
// those that were published together with it and stand before it, and with a larger prefetch not those before either. So
// messages are asked for one by one then. One is passed over after some tries, and only if the server can send a later
// one: it may fail for another reason, and at all of them. Offsets without a message in front of one look the same, and count
// as lost, too.

// An unsent message is one that the server has failed to send.
type unsent struct {
	at    int64 // its position
	times int
	tried int64 // the position of the last one behind it that the server has failed to send too
}

const unsentTries = 3

var errUnsent = errors.New("the server has failed to send a message: its log has the reason; it cannot send messages of a stream that are not AMQP 1.0 with a body of data")

// afterFailure follows a page that ends with a failure of the server.
func (s *stream) afterFailure(ctx context.Context, page ordered.Page) (ordered.Page, error) {
	s.careful = s.at + prefetch
	if len(page.Entries) > 0 {
		return page, nil
	}
	if s.prefetch > 1 {
		return ordered.Page{Waiting: max(1, s.end-s.at)}, nil
	}

	if s.unsent.at != s.at {
		s.unsent = unsent{at: s.at, tried: s.at}
	}
	if s.unsent.times++; s.unsent.times < unsentTries {
		return ordered.Page{}, errUnsent
	}
	next, err := s.sendable(ctx)
	switch {
	case err != nil:
		return ordered.Page{}, s.server.explain(err)
	case next == s.at:
		return ordered.Page{}, errUnsent
	}
	return ordered.Page{Start: next, Waiting: max(1, s.end-next), Missed: next - s.at, Why: "the server cannot send the messages: they, or one that was published together with them, are not AMQP 1.0 with a body of data"}, nil
}

// sendable returns the position of the first message behind the unsent one that the server can send; that of the unsent
// one if it has found none yet.
func (s *stream) sendable(ctx context.Context) (int64, error) {
	for began := time.Now(); time.Since(began) < lookEvery; {
		s.unsent.tried++
		f, err := s.look(ctx, s.unsent.tried, false)
		switch {
		case err == nil && f != nil:
			return s.firstSendable(ctx, s.unsent.tried)
		case err == nil: // none follows
			s.unsent.tried = s.at
			return s.at, nil
		case !s.server.failed():
			return s.at, err
		}
	}
	return s.at, nil
}

// firstSendable looks whether the server can send those before by now: it may have failed only for a while.
func (s *stream) firstSendable(ctx context.Context, next int64) (int64, error) {
	for ; next > s.at; next-- {
		_, err := s.look(ctx, next-1, false)
		if err != nil && s.server.failed() {
			return next, nil
		}
		if err != nil {
			return s.at, err
		}
	}
	return s.at, nil
}
