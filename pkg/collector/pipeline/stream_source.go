package pipeline

import (
	"cmp"
	"context"
	"errors"
	"time"

	"weir/pkg/hit"
	"weir/pkg/request"
)

// NewStream makes a stream. Its caller calls Close.
func (in *Intake) NewStream(config StreamConfig) *Stream {
	s := &Stream{
		in: in, log: config.Log, source: config.Source, position: config.Position, reached: config.Reached,
		journal: config.Journal, sender: config.Send, keep: config.Keep, measure: config.Measure, member: config.Member,
		notBefore: config.NotBefore, lateNotes: config.LateNotes, unsynced: config.Unsynced, oneRule: config.OneRule, again: config.Again,
		writers: make([]*hit.Writer, in.pipeline.config.Partitions), wake: make(chan struct{}, 1),
		found: map[form]bool{}, timer: time.NewTimer(time.Hour), ids: request.IDs{By: in.config.Dedupe.By},
		watch: watch{logger: in.logger, log: config.Log, warned: &in.warned, dedupe: in.config.Dedupe.By},
	}
	s.copier.ring = in.pipeline.config.Evidence
	s.ender.put = in.pipeline.config.Ended
	if in.pipeline.beat.every > 0 && !config.AtOnce {
		s.beat = &in.pipeline.beat
	}
	if s.journal == nil {
		s.journal = noJournal{}
	}
	if s.sender == nil {
		s.sender = in.pipeline.Send
	}
	if len(s.again) > 0 {
		s.againBy = cmp.Or(in.pipeline.rulingOf(config.Fingerprint), in.pipeline.ruling.Load())
	}

	s.beginReading()
	if len(s.again) > 0 && config.Choice != nil && !s.learned {
		_ = s.read(formOf(config.Choice)) // if this version does not know it, the form is found out again
	}
	s.Show()
	s.listed = in.streams.add(s.logStatus)
	return s
}

// Close removes the stream from its source. Cuts in flight stay in the journal, and its member stays a member.
func (s *Stream) Close() {
	s.timer.Stop()
	s.forgetUnnoted()
	if s.member != nil {
		s.member.Released()
	}
	s.in.streams.remove(s.listed)
	s.release()
	s.dropParts()
}

// Abandon closes a stream after a panic, without using any of its state again.
func (s *Stream) Abandon() {
	for i := range s.writers {
		s.writers[i] = nil
	}
	s.used = nil
	s.forgetUnnoted()
	s.open, s.flying = nil, nil
	s.Close()
}

// Add reads a record; after is the log's position after it. The record may be written over when Add has returned. An
// error ends the stream: the context's cause, or the fault of its journal.
func (s *Stream) Add(ctx context.Context, record []byte, after int64) error {
	if err := s.openFor(ctx, after); err != nil {
		return err
	}
	s.record, s.nth, s.noHitYet, s.continues = request.Text(record), 0, true, s.midLine()
	s.tally.bytes += int64(len(record))
	if s.decoder != nil {
		s.decoder.DecodeEach(s.record, func(r *request.Request, err error) { s.judgeRequest(ctx, r, err) })
	} else {
		s.unread(ReasonFormat)
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

// SetOuter sets the values of the source's outer fields for the next records, in the order of IntakeConfig.Outer. The stream
// keeps them; they may be written over when Add has returned.
func (s *Stream) SetOuter(values []string) { s.outer = values }

// Ready returns when the next record can be added without waiting for cuts in flight, and so for other logs. A caller
// that has something that other logs may need calls it before it takes that.
func (s *Stream) Ready(ctx context.Context) error {
	if s.open != nil && s.position > s.open.From && !s.midLine() && len(s.again) == 0 {
		s.endCut() // else a record that is far from the others would end it, and wait for room
	}
	return s.ensure(ctx)
}

// Skip moves on to a position without a record.
func (s *Stream) Skip(ctx context.Context, after int64) error {
	if err := s.openFor(ctx, after); err != nil {
		return err
	}
	s.position = after
	return nil
}

// Lost counts a record that cannot be read, with a reason.
func (s *Stream) Lost(ctx context.Context, sample []byte, why Reason, after int64) error {
	if err := s.Skip(ctx, after); err != nil {
		return err
	}
	s.record = request.Text(sample)
	s.unread(why)
	return nil
}

// Together lets add add several records, and calls done once Kafka has all of them, or will not have them for the
// reason given. done runs in the stream's goroutine.
//
// A line whose parts do not end among these records counts by its beginning. No record of another sender continues it,
// and those who wait for done do not wait for its end.
func (s *Stream) Together(ctx context.Context, add func() error, done func(Outcome, error)) error {
	before, refused := s.tally.Outcome, s.refused
	if err := add(); err != nil {
		return err
	}
	if s.midLine() {
		s.continues = true // no cut ends within the line
		s.decoder.End(func(r *request.Request, err error) { s.judgeRequest(ctx, r, err) })
		if s.err != nil {
			return s.err
		}
	}

	got := s.tally.since(before)
	s.Show()
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
func (s *Stream) then(call func(error)) {
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

// Wait returns when the channel reports that there is more to read. Meanwhile it cuts and sends when due.
func (s *Stream) Wait(ctx context.Context, more <-chan struct{}) error {
	defer s.idle(false)
	s.ender.flush()
	for {
		if err := s.look(ctx); err != nil {
			return err
		}
		s.idle(s.hits == 0 && len(s.flying) == 0 && !s.behind)
		s.Show()

		timer := s.alarm(s.next())
		select {
		case <-more:
			return s.gather(ctx)
		case <-s.wake:
		case <-timer:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Beat cuts and sends what is due, and returns at the next beat: for a log that grows all the time, which is read without
// a report that there is more.
func (s *Stream) Beat(ctx context.Context) error {
	s.ender.flush()
	if err := s.look(ctx); err != nil {
		return err
	}
	s.Show()
	return s.gather(ctx)
}

// gather returns when the beat allows a cut: until then more records may come, and all are read in one go. Meanwhile it
// sends what is in flight. A backlog does not wait.
func (s *Stream) gather(ctx context.Context) error {
	s.idle(false)
	for s.beat != nil && !s.behind && !s.full && len(s.again) == 0 {
		after := s.untilBeat()
		if after <= 0 {
			return nil
		}
		select {
		case <-s.wake:
		case <-s.alarm(min(after, askAgain), true):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := s.advance(ctx); err != nil {
			return err
		}
		s.Show()
	}

	return nil
}

func (s *Stream) idle(idle bool) {
	if s.member != nil {
		s.member.Idle(idle)
	}
}

// Drain cuts the rest and returns when Kafka has all of it, or with the context's cause.
func (s *Stream) Drain(ctx context.Context) error {
	for {
		if _, err := s.Leave(ctx); !errors.Is(err, ErrHeld) {
			return err
		}
		if err := s.awaitNews(ctx); err != nil {
			return err
		}
	}
}

// ErrHeld is why the rest is not sent.
var ErrHeld = errors.New("it is ahead of the other sources")

// Leave cuts the rest and returns when Kafka has all that may be sent; with ErrHeld when there is more. unsent is the
// number of last cuts that no collector has sent.
func (s *Stream) Leave(ctx context.Context) (unsent int, err error) {
	if s.err == nil && s.open != nil && s.position > s.open.From && len(s.again) == 0 { // a part of a cut would be a different cut
		s.endCut()
	}
	err = s.sendAllowed(ctx)
	return s.unsent(), err
}

func (s *Stream) sendAllowed(ctx context.Context) error {
	for {
		if err := s.advance(ctx); err != nil {
			return err
		}
		if len(s.flying) == 0 {
			s.Show()
			return nil
		}

		// A held cut would wait for others. Cuts that are under way are still waited for.
		if first := s.flying[0]; s.held && !first.sent && first.submitted != s.lateNotes {
			return ErrHeld
		}
		if err := s.awaitNews(ctx); err != nil {
			return err
		}
	}
}

func (s *Stream) unsent() (n int) {
	for _, c := range s.flying {
		if !c.sent && !c.again {
			n++
		}
	}
	return n
}

// Position is the position after the last record.
func (s *Stream) Position() int64 { return s.position }

// Reached is the newest request time; pace.NoTime before the first.
func (s *Stream) Reached() int64 { return s.reached }

// SetLag notes how much waits to be read, for the status. That does not show that nothing waits before it shows what was
// read and is not sent.
func (s *Stream) SetLag(lag int64) {
	if lag == 0 {
		s.Show()
	}
	s.lag.Store(lag)
}

// SetBehind notes whether there is more to read, although not available at the moment. Once there is not, the backlog
// has been read.
func (s *Stream) SetBehind(behind bool) {
	s.behind = behind
	s.watch.live = s.watch.live || !behind
}

// AtEnd reports whether there is no more to read, and all hits are in cuts.
func (s *Stream) AtEnd() bool { return !s.behind && s.hits == 0 }

// InFlight is the number of cuts that Kafka does not have yet.
func (s *Stream) InFlight() int { return len(s.flying) }

// Quiet reports whether all that was added is in Kafka.
func (s *Stream) Quiet() bool { return len(s.flying) == 0 && s.open == nil }
