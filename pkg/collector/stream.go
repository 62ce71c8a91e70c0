package collector

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"weir/pkg/collector/pace"
	"weir/pkg/hit"
	"weir/pkg/request"
	"weir/pkg/rule"
)

const (
	cutAfter      = 5 * time.Millisecond
	oldCutAfter   = 100 * time.Millisecond // of a backlog, which is not urgent
	emptyCutAfter = time.Second
	cutBytes      = hit.MaxBytes - 16<<10
	lookEvery     = 256 // records
	askAgain      = time.Second
	inFlightCuts  = 64
	inFlightBytes = 8 << 20
)

// A stream takes the records of one log in their order, makes hits of them, packs these into cuts, and sends a cut
// once the log's journal has noted it. One goroutine owns it, which calls
//
//	add    for each record, with the position after it
//	wait   when there is nothing to read at the moment
//	drain  at the end
//
// and nothing else blocks. A cut ends at once when nothing of the stream is in flight, otherwise when that is
// acknowledged or after 5 ms. In a backlog it ends after 100 ms, or when it covers as much request time as the stream
// may be ahead of others (see package pace). It also ends when a partition's batch is full. A cut is sent once it is noted and
// is not ahead of others; if the journal sends noted cuts by itself after a restart, the cut is noted only then
// (lateNotes). While 64 cuts or 8 MiB are in flight, add waits, and the source with it.
type stream struct {
	*intake
	streamConfig

	decoder *request.Decoder // nil until the format is known
	form    form             // of the decoder
	learned bool             // the form is final
	found   map[form]bool    // the forms that were logged
	ruling  *ruling
	judge   *rule.Judge
	midway  bool // a record is being judged
	watch   watch
	tally   tally

	position  int64 // after the last record
	reached   int64 // the newest request time
	open      *cut  // the cut in progress; nil when no record was added since the last one
	noHitYet  bool  // the record that is being read has added no hit yet
	continues bool  // it continues a line
	full      bool  // a partition's batch is full
	added     int
	writers   []*hit.Writer // of the open cut, by partition; nil for those without a hit
	used      []int         // partitions, in the order of their first hit
	hits      int

	ctx    context.Context // of add, for each
	record string
	err    error
	behind bool // there is more to read, although not available at the moment; the source sets it
	each   func(*request.Request, error)

	flying      []*cut // in their order: not yet given to the journal, not yet noted, noted, sent
	flyingBytes int
	held        bool          // the first that is not sent is ahead of others
	refused     int           // cuts with batches that Kafka refused
	wake        chan struct{} // a journal or the producer has changed a cut
	timer       *time.Timer

	shown atomic.Pointer[LogStatus]
	lag   atomic.Int64 // set by the source

	measure func() // updates lag while the stream waits, for a log that grows meanwhile; nil for others
}

// streamConfig is the part of a stream that depends on its log.
type streamConfig struct {
	log       string // its name in the status: a path, topic/partition, an address
	source    string // in the batches: constant, but new for every incarnation
	position  int64  // to begin at
	reached   int64  // request time reached before; noTime when unknown
	journal   cutJournal
	keep      func(position int64) []byte // the source's note in the journal for a cut that ends there; nil is none
	member    *pace.Member                // nil is never held
	notBefore int64                       // Unix ms: older requests are not counted; noTime is no limit
	lateNotes bool                        // cuts are noted when they may be sent, not before: at its next start the journal sends all its cuts
	oneRule   bool                        // rules change only when nothing is in flight: the journal notes one set only
	again     []again                     // cuts that were noted by an earlier owner and must be made again, in their order
}

// An again is a cut that has to be made again from the same records, by the same rules and clock.
type again struct {
	from, to, clock int64
	ruling          *ruling
}

// newStream makes a stream. Its caller calls close.
func (in *intake) newStream(config streamConfig) *stream {
	s := &stream{
		intake: in, streamConfig: config, position: config.position, reached: config.reached,
		writers: make([]*hit.Writer, in.pipeline.config.Partitions), wake: make(chan struct{}, 1),
		found: map[form]bool{}, timer: time.NewTimer(time.Hour),
	}
	s.each = s.judgeRequest
	s.beginReading()
	s.show()
	in.streams.add(s)
	return s
}

// close removes the stream from its source. Cuts in flight stay in the journal, and its member stays a member.
func (s *stream) close() {
	s.timer.Stop()
	if s.member != nil {
		s.member.Released()
	}
	s.streams.remove(s)
	s.release()
	s.dropParts()
}

// dropParts gives the memory back that the parts of lines use.
func (s *stream) dropParts() {
	if s.decoder != nil {
		s.decoder.Drop()
	}
}

// abandon closes a stream after a panic, without using any of its state again.
func (s *stream) abandon() {
	for i := range s.writers {
		s.writers[i] = nil
	}
	s.used, s.open, s.flying = nil, nil, nil
	s.close()
}

// woken makes the stream look at its cuts. It does not block and may be called from any goroutine.
func (s *stream) woken() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
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

// midLine reports whether parts of a line are missing. Its beginning has to be read again after a crash, so no cut ends
// there.
func (s *stream) midLine() bool { return s.decoder != nil && s.decoder.Pending() }

// openFor ensures an open cut for a record that ends at that position.
func (s *stream) openFor(ctx context.Context, after int64) error {
	for len(s.again) > 0 && after > s.again[0].to { // the last record of that cut was deleted
		if err := s.ensure(ctx); err != nil {
			return err
		}
		s.position = s.again[0].to
		s.endCut()
	}
	if err := s.ensure(ctx); err != nil {
		return err
	}
	s.open.To = after
	return nil
}

func (s *stream) ensure(ctx context.Context) error {
	if s.open != nil {
		return nil
	}
	return s.begin(ctx)
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
		if err := s.leave(ctx); !errors.Is(err, errHeld) {
			return err
		}
		if err := s.awaitNews(ctx); err != nil {
			return err
		}
	}
}

// errHeld is why the rest is not sent.
var errHeld = errors.New("it is ahead of the other sources")

// leave cuts the rest and returns when Kafka has all that may be sent; with errHeld when there is more.
func (s *stream) leave(ctx context.Context) error {
	s.cutLast()
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

// unsent is the number of last cuts that no collector has sent.
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

// show publishes the stream's state for the status.
func (s *stream) show() {
	status := &LogStatus{Log: s.log, Source: s.source, Position: s.position, InFlight: len(s.flying)}
	if s.reached != pace.NoTime {
		status.Newest = time.UnixMilli(s.reached).UTC()
	}
	s.shown.Store(status)
}
