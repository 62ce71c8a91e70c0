package notify

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"weir/internal/sleep"
)

// errRefused is the kind of an error that repeating the same message cannot solve.
var errRefused = errors.New("refused")

// A laterError is an answer that names a time to wait.
type laterError struct {
	error
	after time.Duration
}

func (e laterError) Unwrap() error { return e.error }

// The pauses between attempts: doubled each time, up to the longest, and shortened at random by up to half.
const (
	firstPause   = time.Second
	longestPause = time.Minute
	longestAfter = 5 * time.Minute // that a receiver may ask for
)

// deliver sends a message until the receiver has it, refuses it, or GiveUp has passed. It returns an error only when the
// context is done before that.
func (s *sender) deliver(ctx context.Context, m *Message) error {
	if !s.To.shape().state {
		if err := s.limiter.Wait(ctx); err != nil {
			return err
		}
	}

	began := time.Now()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := s.attempt(ctx, m)
		if err == nil {
			s.success()
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}

		s.failed(err)
		wait := pause/2 + rand.N(pause/2+1)
		if later, ok := errors.AsType[laterError](err); ok {
			wait = max(wait, min(later.after, longestAfter))
		}
		if errors.Is(err, errRefused) || time.Since(began)+wait > s.GiveUp {
			s.drop(m, err)
			return nil
		}

		s.metrics.retried.Inc()
		sleep.For(ctx, wait)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

func (s *sender) attempt(ctx context.Context, m *Message) error {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	_, err := s.To.Send(ctx, m)
	return err
}

// Try sends one message once, and returns the beginning of the answer.
func (r *Receiver) Try(ctx context.Context, m *Message) (answer string, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	return r.To.Send(ctx, m)
}

func (s *sender) success() {
	s.metrics.sent.Inc()
	s.metrics.failing.Set(0)
	s.faults.Over("send")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent++
	s.failing, s.failure, s.unread = time.Time{}, "", false
}

func (s *sender) failed(err error) {
	s.metrics.failed.Inc()
	s.metrics.failing.Set(1)
	s.faults.Note("send", fmt.Errorf("notify: receiver %s: %w", s.Name, err))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing.IsZero() {
		s.failing = time.Now()
	}
	s.failure, s.unread = err.Error(), false
}

// drop notes that a message is not sent any more.
func (s *sender) drop(m *Message, err error) {
	s.metrics.dropped.Inc()
	s.logger.Error("notify: a message was dropped", "id", m.ID, "rule", m.Rule, "events", m.Counts.Sum(), "error", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropped++
}
