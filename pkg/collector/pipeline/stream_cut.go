package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"weir/internal/topic"
	"weir/pkg/collector/journal"
	"weir/pkg/collector/pace"
	"weir/pkg/hit"
)

// ensure opens a cut, once there is room for it, unless one is open.
func (s *Stream) ensure(ctx context.Context) error {
	if s.open != nil {
		return nil
	}
	if err := s.room(ctx); err != nil {
		return err
	}
	now := s.in.Now()
	s.open = &Cut{Cut: journal.Cut{Source: s.source, From: s.position, Clock: now.UnixMilli()}, span: math.MaxInt64, first: pace.NoTime, begun: now, wake: s.wake}
	if s.in.seen != nil {
		s.open.SeenBy = s.in.config.Name
	}
	if s.member != nil {
		s.open.span = s.member.Span()
	}

	// A cut made again keeps its clock and rules, so that its bytes are the same.
	next := s.in.pipeline.ruling.Load()
	switch {
	case len(s.again) > 0:
		s.open.Clock, next = s.again[0].Clock, s.againBy
	case s.midway || s.oneRule && len(s.flying) > 0:
		next = s.ruling
	}

	if next != s.ruling {
		s.judgeBy(next)
	}
	if !s.midway && s.copier.begin(next, s.open.Clock) {
		s.want()
	}
	s.open.Fingerprint = next.fingerprint
	return nil
}

// room waits while too much is in flight, or while cuts made by rules that have changed are in flight.
func (s *Stream) room(ctx context.Context) error {
	for {
		if err := s.advance(ctx); err != nil {
			return err
		}
		if len(s.flying) < InFlightCuts && s.flyingBytes < inFlightBytes && !s.outdated() {
			return nil
		}
		if err := s.pause(ctx); err != nil {
			return err
		}
	}
}

// outdated reports whether the next cut has to wait for those in flight, because other rules make it.
func (s *Stream) outdated() bool {
	return s.oneRule && len(s.flying) > 0 && len(s.again) == 0 && s.ruling != s.in.pipeline.ruling.Load()
}

// pause waits for news of the cuts in flight; the wait does not count as a stall of the stream.
func (s *Stream) pause(ctx context.Context) error {
	if s.member != nil {
		s.member.Wait(true)
		defer s.member.Wait(false)
	}
	return s.awaitNews(ctx)
}

// awaitNews waits for news of the cuts in flight, or until it is time to ask again whether they may be sent, or how much
// there is to read.
func (s *Stream) awaitNews(ctx context.Context) error {
	if s.measure != nil {
		if lag, known := s.measure(); known {
			s.SetLag(lag)
		}
	}
	select {
	case <-s.wake:
	case <-s.alarm(askAgain, s.held || s.measure != nil):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// alarm returns a channel that reports when a time has passed; nil when there is nothing to wait for.
func (s *Stream) alarm(after time.Duration, any bool) <-chan time.Time {
	if !any {
		return nil
	}
	s.timer.Reset(max(after, 0))
	return s.timer.C
}

// look cuts when it is time to, and handles the cuts in flight.
func (s *Stream) look(ctx context.Context) error {
	if err := s.advance(ctx); err != nil {
		return err
	}
	if after, any := s.due(); any && after <= 0 {
		s.endCut()
		return s.advance(ctx)
	}
	return nil
}

// due is the time until the open cut has to be made, if time ends it.
func (s *Stream) due() (after time.Duration, any bool) {
	switch {
	case s.open == nil || s.position == s.open.From:
		return 0, false
	case len(s.again) > 0:
		return 0, s.position >= s.again[0].To
	case s.full:
		return 0, true
	case s.midLine():
		return 0, false
	case s.hits == 0 && len(s.open.then) == 0:
		return emptyCutAfter - s.in.Now().Sub(s.open.begun), true
	case s.old() && len(s.open.then) == 0:
		return oldCutAfter - s.in.Now().Sub(s.open.begun), true
	case s.beat != nil:
		return s.untilBeat(), true
	case len(s.flying) == 0:
		return 0, true
	}

	return cutAfter - s.in.Now().Sub(s.open.begun), true
}

// untilBeat is the time until the beat allows a cut of live records.
func (s *Stream) untilBeat() time.Duration {
	now := s.in.Now()
	since := now
	if s.open != nil {
		since = s.open.begun
	}
	return s.beat.wait(now, s.beaten, s.beat.period(since))
}

// old reports whether the open cut is part of a backlog that continues after it.
func (s *Stream) old() bool {
	return s.behind && s.member != nil && s.open.first != pace.NoTime && s.open.first < s.open.Clock-s.member.Lateness()
}

// next is the time until the stream has to act, if time makes it act.
func (s *Stream) next() (after time.Duration, any bool) {
	after, any = s.due()
	if s.held && (!any || after > askAgain) {
		return askAgain, true
	}
	return after, any
}

// endCut ends the open cut and gives it to the journal.
func (s *Stream) endCut() {
	c := s.open
	c.To, c.Reached, c.Unsynced = s.position, s.reached, s.unsynced
	if s.keep != nil {
		c.Note = s.keep(c.To)
	}

	for _, partition := range s.used {
		s.addBatch(partition, false)
	}
	s.release()
	s.copier.end(c)
	s.ender.flush()
	c.left.Store(int32(len(c.Batches)))
	if s.beat != nil && len(c.Batches) > 0 {
		s.beaten = s.beat.period(s.in.Now())
		s.beat.last.Store(s.beaten)
	}
	s.open, s.full, s.hits = nil, false, 0
	s.flying = append(s.flying, c)
	s.flyingBytes += c.bytes()
	s.Show()
	s.tally.flush(s.in.metrics)
	s.publishSeen()
	if s.reached != pace.NoTime {
		s.in.metrics.newest.Set(float64(s.reached) / 1000)
	}

	// The earlier owner has noted this cut already.
	if len(s.again) > 0 {
		s.again, c.again = s.again[1:], true
		c.submitted = true
		c.noted.Store(true)
		return
	}

	if !s.lateNotes {
		s.note(c)
	}
}

// note gives a cut to the journal.
func (s *Stream) note(c *Cut) {
	c.submitted = true
	s.journal.Note(c)
}

// release gives the writers back.
func (s *Stream) release() {
	for _, partition := range s.used {
		s.in.pipeline.writers.put(s.writers[partition])
		s.writers[partition] = nil
	}
	s.used = s.used[:0]
}

// advance sends the cuts that the journal has noted, and removes those that Kafka has.
func (s *Stream) advance(ctx context.Context) error {
	s.finishSent()
	for _, c := range s.flying {
		if c.sent {
			continue
		}
		if !c.noted.Load() || !s.lateNotes && !s.askToSend(c) {
			break
		}
		if err := s.send(ctx, c); err != nil {
			return err
		}
	}

	s.noteAllowed()
	s.finishSent() // cuts without batches are done already
	return nil
}

// noteAllowed gives the cuts to the journal that were not given yet and may be sent.
func (s *Stream) noteAllowed() {
	for _, c := range s.flying {
		if c.submitted {
			continue
		}
		if !s.askToSend(c) {
			return
		}
		s.note(c)
	}
}

// finishSent removes the first cuts, as far as Kafka has them.
func (s *Stream) finishSent() {
	for len(s.flying) > 0 && s.flying[0].sent && s.flying[0].left.Load() == 0 {
		c := s.flying[0]
		s.flying = s.flying[1:]
		s.flyingBytes -= c.bytes()
		s.finish(c)
	}
}

// askToSend asks the group for the next cut to be sent, and reports whether it is not ahead of others. If it is,
// askToSend notes in the group that all before it is sent. This cannot deadlock: it asks for no more than the group
// grants to the slowest.
func (s *Stream) askToSend(c *Cut) bool {
	if s.member == nil || c.fault != nil || c.Reached == pace.NoTime || len(c.Batches) == 0 {
		s.held = false
		return true
	}

	// A single record may cover more time than the slack; asking for all of it would wait for ever.
	upTo := c.Reached
	if c.first != pace.NoTime {
		upTo = min(upTo, c.first+s.member.Slack())
	}

	s.held = !s.member.Ask(upTo, s.woken)
	if s.held && c.first != pace.NoTime && c == s.firstUnsent() {
		s.member.Reach(c.first)
		if s.flying[0] == c {
			s.member.Settle(c.first)
		}
	}

	return !s.held
}

// firstUnsent is the first cut that is not sent; nil when all are.
func (s *Stream) firstUnsent() *Cut {
	for _, c := range s.flying {
		if !c.sent {
			return c
		}
	}
	return nil
}

func (s *Stream) send(ctx context.Context, c *Cut) error {
	if c.fault != nil {
		s.err = fmt.Errorf("noting batches of %s in the journal: %w", s.log, c.fault)
		return s.err
	}

	if len(c.Batches) > 0 {
		if err := s.sender(ctx, &c.Cut, messages(&c.Cut, func(b *journal.Batch, err error) { s.settled(c, b, err) })); err != nil {
			return err
		}
	}

	c.sent = true
	if s.member != nil && c.Reached != pace.NoTime {
		s.member.Reach(c.Reached)
	}
	return nil
}

// settled is called by the producer for each batch.
func (s *Stream) settled(c *Cut, b *journal.Batch, err error) {
	if errors.Is(err, topic.ErrClosed) {
		return // it stays in the journal
	}
	if err != nil {
		c.lost.Add(int32(b.Hits))
		s.in.Incident("send", fmt.Errorf("hits of %s are lost: %w", s.log, err))
	}
	if c.left.Add(-1) == 0 {
		s.woken()
	}
}

var errLost = errors.New("kafka has refused it permanently")

func (s *Stream) finish(c *Cut) {
	s.journal.Done(c)
	var err error
	if n := c.lost.Load(); n > 0 {
		err = errLost
		s.refused++
		s.in.metrics.uncounted[reasonKafka].Add(float64(n))
		s.in.metrics.totals.uncounted[reasonKafka].Add(int64(n))
		s.in.seen.forgetLost(c)
	}
	for _, call := range c.then {
		call(err)
	}
}

// openFor ensures an open cut for a record that ends at that position.
func (s *Stream) openFor(ctx context.Context, after int64) error {
	for len(s.again) > 0 && after > s.again[0].To { // the last record of that cut was deleted
		if err := s.ensure(ctx); err != nil {
			return err
		}
		s.position = s.again[0].To
		s.endCut()
	}
	if err := s.ensure(ctx); err != nil {
		return err
	}
	s.open.To = after
	return nil
}

// addBatch adds the hits in the partition's writer to the open cut, which ends with the record that is being read. A
// partition gets more than one batch only if a record's requests do not fit into one.
func (s *Stream) addBatch(partition int, more bool) {
	part := 0
	for i := range s.open.Batches {
		if s.open.Batches[i].Partition == partition {
			part++
		}
	}
	c := s.open
	header := hit.Header{Source: c.Source, From: c.From, To: c.To, Part: part, More: more, Clock: c.Clock, Fingerprint: c.Fingerprint}
	value, err := s.writers[partition].Append(nil, header)
	if err != nil {
		panic(fmt.Sprintf("collector: a batch of %s: %v", s.source, err)) // the header is ours
	}
	s.open.Batches = append(s.open.Batches, journal.Batch{Partition: partition, Hits: s.writers[partition].Len(), Value: value})
}

// judgeBy replaces the ruling from the next record on, and reads the fields that its rules need.
func (s *Stream) judgeBy(r *ruling) {
	s.ruling, s.judge = r, r.set.NewJudge()
	s.tally.rules(s.in.metrics, r.set.Rules)
	s.want()
}

// want sets the fields that the decoder reads.
func (s *Stream) want() {
	if s.decoder == nil || s.ruling == nil {
		return
	}
	reads := s.ruling.reads
	if s.copier.on {
		reads = s.ruling.reaches
	}
	if reads != nil && s.in.seen != nil { // nil is all fields
		reads = slices.Concat(reads, []string{s.in.seen.dedupe.By})
	}
	s.decoder.Want(reads)
}
