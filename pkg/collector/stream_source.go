package collector

import (
	"cmp"
	"context"
	"errors"
	"time"

	"weir/pkg/hit"
	"weir/pkg/request"
)

// newStream makes a stream. Its caller calls close.
func (in *intake) newStream(config streamConfig) *stream {
	s := &stream{
		in: in, log: config.log, source: config.source, position: config.position, reached: config.reached,
		journal: config.journal, keep: config.keep, measure: config.measure, member: config.member,
		notBefore: config.notBefore, lateNotes: config.lateNotes, oneRule: config.oneRule, again: config.again,
		writers: make([]*hit.Writer, in.pipeline.config.Partitions), wake: make(chan struct{}, 1),
		found: map[form]bool{}, timer: time.NewTimer(time.Hour),
		watch: watch{logger: in.logger, log: config.log, warned: &in.warned},
	}
	s.each = s.judgeRequest
	if s.journal == nil {
		s.journal = noJournal{}
	}
	if len(s.again) > 0 {
		s.againBy = cmp.Or(in.pipeline.rulingOf(config.fingerprint), in.pipeline.ruling.Load())
	}

	s.beginReading()
	if len(s.again) > 0 && config.choice != nil && !s.learned {
		_ = s.read(formOf(config.choice)) // if this version does not know it, the form is found out again
	}
	s.show()
	s.listed = in.streams.add(s.logStatus)
	return s
}

// close removes the stream from its source. Cuts in flight stay in the journal, and its member stays a member.
func (s *stream) close() {
	s.timer.Stop()
	if s.member != nil {
		s.member.Released()
	}
	s.in.streams.remove(s.listed)
	s.release()
	s.dropParts()
}

// abandon closes a stream after a panic, without using any of its state again.
func (s *stream) abandon() {
	for i := range s.writers {
		s.writers[i] = nil
	}
	s.used, s.open, s.flying = nil, nil, nil
	s.close()
}

// add reads a record; after is the log's position after it. The record may be written over when add has returned. An
// error ends the stream: the context's cause, or the fault of its journal.
func (s *stream) add(ctx context.Context, record []byte, after int64) error {
	if err := s.openFor(ctx, after); err != nil {
		return err
	}
	s.ctx, s.record, s.noHitYet, s.continues = ctx, request.Text(record), true, s.midLine()
	s.tally.bytes += int64(len(record))
	if s.decoder != nil {
		s.decoder.DecodeEach(s.record, s.each)
	} else {
		s.unread(reasonFormat)
	}

	if s.err != nil {
		return s.err
	}
	s.position = after
	s.added++
	if s.full || s.added%lookEvery == 0 || len(s.again) > 0 {
		return s.look(ctx)
	}

	return nil
}

// ready returns when the next record can be added without waiting for cuts in flight, and so for other logs. A caller
// that has something that other logs may need calls it before it takes that.
func (s *stream) ready(ctx context.Context) error {
	if s.open != nil && s.position > s.open.From && !s.midLine() && len(s.again) == 0 {
		s.endCut() // else a record that is far from the others would end it, and wait for room
	}
	return s.ensure(ctx)
}

// skip moves on to a position without a record.
func (s *stream) skip(ctx context.Context, after int64) error {
	if err := s.openFor(ctx, after); err != nil {
		return err
	}
	s.position = after
	return nil
}

// lost counts a record that cannot be read, with a reason.
func (s *stream) lost(ctx context.Context, sample []byte, why reason, after int64) error {
	if err := s.skip(ctx, after); err != nil {
		return err
	}
	s.record = request.Text(sample)
	s.unread(why)
	return nil
}

// together lets add add several records, and calls done once Kafka has all of them, or will not have them for the
// reason given. done runs in the stream's goroutine.
func (s *stream) together(add func() error, done func(outcome, error)) error {
	before, refused := s.tally.outcome, s.refused
	if err := add(); err != nil {
		return err
	}

	got := s.tally.since(before)
	s.show()
	s.then(func(err error) {
		if err == nil && s.refused > refused { // perhaps it was an earlier cut of the same records
			err = errLost
		}
		done(got, err)
	})
	return nil
}

// then calls a function once Kafka has all that was added so far: with nil, or with the reason why Kafka will not have
// it. It runs in the stream's goroutine.
func (s *stream) then(call func(error)) {
	switch {
	case s.open != nil:
		s.open.then = append(s.open.then, call)
	case len(s.flying) > 0:
		last := s.flying[len(s.flying)-1]
		last.then = append(last.then, call)
	default:
		call(nil)
	}
}

// wait returns when the channel reports that there is more to read. Meanwhile it cuts and sends when due.
func (s *stream) wait(ctx context.Context, more <-chan struct{}) error {
	defer s.idle(false)
	for {
		if err := s.look(ctx); err != nil {
			return err
		}
		s.idle(s.hits == 0 && len(s.flying) == 0 && !s.behind)
		s.show()

		timer := s.alarm(s.next())
		select {
		case <-more:
			return nil
		case <-s.wake:
		case <-timer:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *stream) idle(idle bool) {
	if s.member != nil {
		s.member.Idle(idle)
	}
}

// drain cuts the rest and returns when Kafka has all of it, or with the context's cause.
func (s *stream) drain(ctx context.Context) error {
	for {
		if _, err := s.leave(ctx); !errors.Is(err, errHeld) {
			return err
		}
		if err := s.awaitNews(ctx); err != nil {
			return err
		}
	}
}

// errHeld is why the rest is not sent.
var errHeld = errors.New("it is ahead of the other sources")

// leave cuts the rest and returns when Kafka has all that may be sent; with errHeld when there is more. unsent is the
// number of last cuts that no collector has sent.
func (s *stream) leave(ctx context.Context) (unsent int, err error) {
	s.cutLast()
	err = s.sendAllowed(ctx)
	return s.unsent(), err
}

func (s *stream) sendAllowed(ctx context.Context) error {
	for {
		if err := s.advance(ctx); err != nil {
			return err
		}
		if len(s.flying) == 0 {
			s.show()
			return nil
		}

		// A held cut would wait for others. Cuts that are under way are still waited for.
		if first := s.flying[0]; s.held && !first.sent && first.submitted != s.lateNotes {
			return errHeld
		}
		if err := s.awaitNews(ctx); err != nil {
			return err
		}
	}
}

func (s *stream) unsent() (n int) {
	for _, c := range s.flying {
		if !c.sent && !c.again {
			n++
		}
	}
	return n
}

// cutLast cuts the rest, unless that is a part of a cut that has to be made again.
func (s *stream) cutLast() {
	if s.err == nil && s.position > s.begins() && len(s.again) == 0 { // a part of a cut would be a different cut
		s.endCut()
	}
}

// at is the position after the last record.
func (s *stream) at() int64 { return s.position }

// setLag notes how much waits to be read, for the status.
func (s *stream) setLag(lag int64) { s.lag.Store(lag) }

// setBehind notes whether there is more to read, although not available at the moment. Once there is not, the backlog
// has been read.
func (s *stream) setBehind(behind bool) {
	s.behind = behind
	s.watch.live = s.watch.live || !behind
}

// atEnd reports whether there is no more to read, and all hits are in cuts.
func (s *stream) atEnd() bool { return !s.behind && s.hits == 0 }

// inFlight is the number of cuts that Kafka does not have yet.
func (s *stream) inFlight() int { return len(s.flying) }

// quiet reports whether all that was added is in Kafka.
func (s *stream) quiet() bool { return len(s.flying) == 0 && s.open == nil }
