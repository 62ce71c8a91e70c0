package collector

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"weir/internal/kafka"
	"weir/pkg/hit"
	"weir/pkg/request"
	"weir/pkg/rule"
)

const (
	cutAfter      = 5 * time.Millisecond
	emptyCutAfter = time.Second
	cutBytes      = hit.MaxBytes - 16<<10
	lookEvery     = 256 // records
	inFlightCuts  = 64
	inFlightBytes = 8 << 20
)

// A stream takes the records of one log in their order, makes hits of them, cuts these into batches, and sends them
// once the log's journal has noted the cut. It is one goroutine's, which calls
//
//	add    for each record, with the position behind it
//	wait   when there is nothing to read at the moment
//	drain  at the end
//
// and nothing else blocks. A cut is made at once when nothing of the stream is in flight, else when that returns, or
// after 5 ms, or when a partition's batch is full. While 64 cuts or 8 MiB are in flight, or while the stream is ahead
// of others (see hold), add waits, and the source with it.
type stream struct {
	*intake
	streamConfig

	decoder *request.Decoder // nil until the format is known
	ruling  *ruling
	judge   *rule.Judge
	watch   watch
	tally   tally

	position int64 // behind the last record
	reached  int64 // the newest request time
	open     *cut  // what comes next; nil when no record was added since the last cut
	whole    bool  // no request was added of the record that is being read
	full     bool  // a partition's batch is
	added    int
	writers  []*hit.Writer // of the open cut, by partition; nil for those without a hit
	used     []int         // partitions, in the order of their first hit
	hits     int

	ctx      context.Context // of add, for each
	record   string
	err      error
	mayReach int64
	behind   bool // there is more to read, though nothing to be had at the moment; who reads the log sets it
	each     func(*request.Request, error)

	flying      []*cut // in their order: not yet noted, noted, sent
	flyingBytes int
	refused     int           // cuts of which Kafka would not have something
	wake        chan struct{} // a journal or producer has something to tell
	timer       *time.Timer

	shown atomic.Pointer[LogStatus]
	lag   atomic.Int64 // which the source sets
}

// streamConfig is what makes a log's stream that log's.
type streamConfig struct {
	log       string // what the status calls it: a path, topic/partition, an address
	source    string // what the batches bear: the same for ever, another for every incarnation
	position  int64  // to begin at
	reached   int64  // request time reached before; noTime when unknown
	journal   journal
	keep      func(position int64) []byte // what is kept in the journal with a cut that ends there; nil is nothing
	member    *member                     // nil is never held
	notBefore int64                       // Unix ms: what is older is not wanted; noTime is nothing
	oneRule   bool                        // other rules only when nothing is in flight: the journal can tell of one set only
	again     []again                     // cuts that were noted by an earlier owner and must be made again, in their order
}

// An again is a cut that has to be made again from the same records, by the same rules and clock.
type again struct {
	from, to, clock int64
	ruling          *ruling
}

// newStream makes a stream. Who makes it calls close.
func (in *intake) newStream(config streamConfig) *stream {
	s := &stream{
		intake: in, streamConfig: config, position: config.position, reached: config.reached,
		writers: make([]*hit.Writer, in.collector.config.Partitions), wake: make(chan struct{}, 1),
		timer: time.NewTimer(time.Hour), mayReach: noTime,
	}
	s.each = s.take
	s.decoder = in.fixedDecoder()
	s.show()
	in.streams.add(s)
	return s
}

// close forgets the stream. What is in flight stays in the journal, and its member a member.
func (s *stream) close() {
	s.timer.Stop()
	s.streams.remove(s)
	s.release()
}

// woken tells the stream to look at its cuts. It does not block and may be called from anywhere.
func (s *stream) woken() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// add reads a record; after is the log's position behind it. The record may be written over when add has returned.
// An error ends the stream: the context's cause, or the fault of its journal.
func (s *stream) add(ctx context.Context, record []byte, after int64) error {
	if err := s.openFor(ctx, after); err != nil {
		return err
	}
	s.ctx, s.record, s.whole = ctx, request.Text(record), true
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

// openFor sees to an open cut that a record with that position behind it belongs to.
func (s *stream) openFor(ctx context.Context, after int64) error {
	for len(s.again) > 0 && after > s.again[0].to { // what was the last record of that cut is not there any more
		if err := s.ensure(ctx); err != nil {
			return err
		}
		s.position = s.again[0].to
		s.cut()
	}
	if err := s.ensure(ctx); err != nil {
		return err
	}
	s.open.to = after
	return nil
}

func (s *stream) ensure(ctx context.Context) error {
	if s.open != nil {
		return nil
	}
	return s.begin(ctx)
}

// skip goes on to a position without a record: what lies before it holds none.
func (s *stream) skip(ctx context.Context, after int64) error {
	if err := s.openFor(ctx, after); err != nil {
		return err
	}
	s.position = after
	return nil
}

// lost counts a record that is none of what can be read, for one of the reasons.
func (s *stream) lost(ctx context.Context, sample []byte, why reason, after int64) error {
	if err := s.skip(ctx, after); err != nil {
		return err
	}
	s.record = request.Text(sample)
	s.unread(why)
	return nil
}

// then has something called once Kafka has all that was added so far: with nil, or with why it will not have it.
// It runs in the stream's goroutine.
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

// wait returns when there is more to read, which is what the channel tells. Meanwhile it cuts and sends what is due.
func (s *stream) wait(ctx context.Context, more <-chan struct{}) error {
	defer s.idle(false)
	for {
		if err := s.look(ctx); err != nil {
			return err
		}
		s.idle(s.hits == 0 && len(s.flying) == 0 && !s.behind)
		s.show()
		timer := s.alarm(s.due())
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
		s.member.idle(idle)
	}
}

// drain cuts what there is and returns when Kafka has all of it, or with the context's cause.
func (s *stream) drain(ctx context.Context) error {
	if s.err == nil && s.position > s.begins() && len(s.again) == 0 { // half a cut made again would be another
		s.cut()
	}
	for {
		if err := s.advance(ctx); err != nil {
			return err
		}
		if len(s.flying) == 0 {
			s.show()
			return nil
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// begin opens a cut, once there is room for it.
func (s *stream) begin(ctx context.Context) error {
	if err := s.room(ctx); err != nil {
		return err
	}
	now := time.Now()
	s.open = &cut{source: s.source, from: s.position, clock: now.UnixMilli(), begun: now}
	next := s.collector.ruling.Load()
	switch {
	case len(s.again) > 0:
		s.open.clock, next = s.again[0].clock, s.again[0].ruling
	case s.oneRule && len(s.flying) > 0:
		next = s.ruling
	}
	if next != s.ruling {
		s.ruling, s.judge = next, next.set.NewJudge()
		s.tally.rules(s.metrics, next.names)
	}
	s.open.fingerprint = next.fingerprint
	return nil
}

func (s *stream) begins() int64 {
	if s.open == nil {
		return s.position
	}
	return s.open.from
}

// room waits while too much is in flight, or anything that was made by rules that are not to be used any more.
func (s *stream) room(ctx context.Context) error {
	for {
		if err := s.advance(ctx); err != nil {
			return err
		}
		if len(s.flying) < inFlightCuts && s.flyingBytes < inFlightBytes && !s.outdated() {
			return nil
		}
		if err := s.pause(ctx, nil, time.Hour); err != nil {
			return err
		}
	}
}

// outdated says whether the next cut has to wait for those in flight, because it is made by other rules.
func (s *stream) outdated() bool {
	return s.oneRule && len(s.flying) > 0 && len(s.again) == 0 && s.ruling != s.collector.ruling.Load()
}

// pause waits for news of what is in flight, for a channel, or for a while, through no fault of the stream.
func (s *stream) pause(ctx context.Context, moved <-chan struct{}, most time.Duration) error {
	if s.member != nil {
		s.member.wait(true)
		defer s.member.wait(false)
	}
	select {
	case <-s.wake:
	case <-moved:
	case <-s.alarm(most, true):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// alarm is a channel that tells when a time has passed; nil when there is nothing to wait for.
func (s *stream) alarm(after time.Duration, any bool) <-chan time.Time {
	if !any {
		return nil
	}
	s.timer.Reset(max(after, 0))
	return s.timer.C
}

// look cuts when it is time to, and sees to what is in flight.
func (s *stream) look(ctx context.Context) error {
	s.mayReach = noTime // others may have begun to read
	if err := s.advance(ctx); err != nil {
		return err
	}
	if after, any := s.due(); any && after <= 0 {
		s.cut()
		return s.advance(ctx)
	}
	return nil
}

// due says in how long the open cut has to be made, if there is one that time ends.
func (s *stream) due() (after time.Duration, any bool) {
	switch {
	case s.open == nil || s.position == s.open.from:
		return 0, false
	case len(s.again) > 0:
		return 0, s.position >= s.again[0].to
	case s.full:
		return 0, true
	case s.decoder != nil && s.decoder.Pending():
		return 0, false // a line is being put together: after a crash its beginning has to be read again
	case s.hits == 0 && len(s.open.then) == 0:
		return emptyCutAfter - time.Since(s.open.begun), true
	case len(s.flying) == 0:
		return 0, true
	}
	return cutAfter - time.Since(s.open.begun), true
}

// take judges a request of the record, or counts why there is none.
func (s *stream) take(r *request.Request, err error) {
	if s.err != nil || err == request.ErrNoRequest {
		return
	}
	if err != nil {
		s.unread(reasonOf(err))
		return
	}
	s.tally.requests++
	why := s.refuse(r)
	if s.err != nil {
		return
	}
	if why != counted {
		s.tally.uncounted[why]++
		return
	}
	hits := s.judge.Hits(r)
	if len(hits) == 0 {
		s.tally.uncounted[s.whyNone()]++
	}
	for i := range hits {
		s.hit(&hits[i], r.UnixMilli)
	}
}

// refuse says why a request that was read is not judged.
func (s *stream) refuse(r *request.Request) reason {
	if s.config.Only != nil && !s.config.Only(s.decoder.Envelope) {
		return reasonFiltered
	}
	proxy := s.ruling.client != nil && s.ruling.client.Resolve(r)
	s.watch.request(s, r, proxy)
	switch {
	case r.UnixMilli > s.open.clock+s.ahead:
		return reasonAhead
	case r.UnixMilli < s.notBefore:
		return reasonStart
	case proxy:
		return reasonProxy
	}
	if r.UnixMilli > s.reached {
		if s.member != nil && r.UnixMilli > s.mayReach && len(s.again) == 0 {
			s.err = s.held(s.ctx, r.UnixMilli)
		}
		s.reached = r.UnixMilli
	}
	return counted
}

// held waits until a request of that time may be read.
func (s *stream) held(ctx context.Context, at int64) error {
	for {
		may, newest, moved := s.member.may(at)
		if may {
			s.mayReach = newest
			return nil
		}
		if s.whole && s.position > s.open.from && len(s.again) == 0 {
			if err := s.cutBefore(ctx); err != nil {
				return err
			}
		}
		if err := s.advance(ctx); err != nil {
			return err
		}
		if n := len(s.flying); n == 0 || s.flying[n-1].sent {
			s.member.reach(at)
		}
		if err := s.pause(ctx, moved, time.Second); err != nil {
			return err
		}
	}
}

// cutBefore cuts what was read before the record that is being read, and begins the cut that it is of.
func (s *stream) cutBefore(ctx context.Context) error {
	after := s.open.to
	s.cut()
	return s.openFor(ctx, after)
}

// whyNone is the reason of the rule that came nearest to counting the request.
func (s *stream) whyNone() reason {
	why := rule.Allowed
	for i := range s.ruling.names {
		why = max(why, s.judge.Outcome(i))
	}
	return ruleReasons[why]
}

// hit adds a hit to the batch of its partition.
func (s *stream) hit(h *rule.Hit, at int64) {
	partition := hit.Partition(s.ruling.names[h.Rule], h.Key, len(s.writers))
	w := s.writers[partition]
	if w == nil {
		w = s.collector.writers.get()
		w.Reset(s.ruling.names)
		s.writers[partition] = w
		s.used = append(s.used, partition)
	}
	if !w.Add(h.Rule, h.Key, at, h.Cost) {
		s.batch(partition, true)
		w.Reset(s.ruling.names)
		w.Add(h.Rule, h.Key, at, h.Cost)
	}
	s.hits++
	s.whole = false
	s.full = s.full || w.Size() > cutBytes
	s.tally.hits[h.Rule]++
}

// batch adds what the partition's writer holds to the open cut, which ends with the record that is being read: more
// than one batch a partition is made only where a record's requests do not fit one.
func (s *stream) batch(partition int, more bool) {
	part := 0
	for i := range s.open.batches {
		if s.open.batches[i].partition == partition {
			part++
		}
	}
	header := s.open.header(part, more)
	value, err := s.writers[partition].Append(nil, header)
	if err != nil {
		panic(fmt.Sprintf("collector: a batch of %s: %v", s.source, err)) // the header is ours
	}
	s.open.batches = append(s.open.batches, batch{partition, s.writers[partition].Len(), value})
}

// cut ends the open cut and gives it to the journal.
func (s *stream) cut() {
	c := s.open
	c.to, c.reached = s.position, s.reached
	if s.keep != nil {
		c.note = s.keep(c.to)
	}
	for _, partition := range s.used {
		s.batch(partition, false)
	}
	s.release()
	c.left.Store(int32(len(c.batches)))
	s.open, s.full, s.hits = nil, false, 0
	s.flying = append(s.flying, c)
	s.flyingBytes += c.bytes()
	s.tally.flush(s.metrics)
	if s.reached != noTime {
		s.metrics.newest.Set(float64(s.reached) / 1000)
	}
	if len(s.again) > 0 {
		s.again = s.again[1:]
		c.noted.Store(true)
		return
	}
	s.journal.note(s, c)
}

// release gives the writers back.
func (s *stream) release() {
	for _, partition := range s.used {
		s.collector.writers.put(s.writers[partition])
		s.writers[partition] = nil
	}
	s.used = s.used[:0]
}

// advance sends what the journal has noted, and lets go of what Kafka has.
func (s *stream) advance(ctx context.Context) error {
	for _, c := range s.flying {
		if c.sent {
			continue
		}
		if !c.noted.Load() {
			break
		}
		if err := s.send(ctx, c); err != nil {
			return err
		}
	}
	for len(s.flying) > 0 && s.flying[0].sent && s.flying[0].left.Load() == 0 {
		c := s.flying[0]
		s.flying = s.flying[1:]
		s.flyingBytes -= c.bytes()
		s.finish(c)
	}
	return nil
}

func (s *stream) send(ctx context.Context, c *cut) error {
	if c.fault != nil {
		s.err = fmt.Errorf("noting a cut of %s: %w", s.log, c.fault)
		return s.err
	}
	if len(c.batches) > 0 {
		if err := s.collector.config.Sink.Send(ctx, c.messages(s.settled)...); err != nil {
			return err
		}
	}
	c.sent = true
	if s.member != nil && c.reached != noTime {
		s.member.reach(c.reached)
	}
	return nil
}

// settled is told by the producer of each batch.
func (s *stream) settled(c *cut, b *batch, err error) {
	if errors.Is(err, kafka.ErrClosed) {
		return // it stays in the journal
	}
	if err != nil {
		c.lost.Add(int32(b.hits))
		s.trouble("send", fmt.Errorf("hits of %s are lost: %w", s.log, err))
	}
	if c.left.Add(-1) == 0 {
		s.woken()
	}
}

var errLost = errors.New("kafka has refused it for good")

func (s *stream) finish(c *cut) {
	s.journal.done(s, c)
	var err error
	if n := c.lost.Load(); n > 0 {
		err = errLost
		s.refused++
		s.metrics.uncounted[reasonKafka].Add(float64(n))
	}
	for _, call := range c.then {
		call(err)
	}
}

// show puts the stream's state where the status finds it.
func (s *stream) show() {
	status := &LogStatus{Log: s.log, Source: s.source, Position: s.position, InFlight: len(s.flying)}
	if s.reached != noTime {
		status.Newest = time.UnixMilli(s.reached).UTC()
	}
	s.shown.Store(status)
}
