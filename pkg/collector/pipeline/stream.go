package pipeline

import (
	"sync/atomic"
	"time"

	"weir/internal/sleep"
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
	InFlightCuts  = 64 // of one stream, at most
	inFlightBytes = 8 << 20
)

// A Stream takes the records of one log in their order, makes hits of them, packs these into cuts, and sends a cut
// once the log's journal has noted it. One goroutine owns it, which calls
//
//	Add    for each record, with the position after it
//	Wait   when there is nothing to read at the moment
//	Beat   instead, when more is expected by the next beat
//	Drain  at the end
//
// and nothing else blocks. A cut of live records ends when the beat allows it. Without a beat, or when senders wait for
// an answer, it ends at once when nothing of the stream is in flight, otherwise when that is acknowledged or after 5 ms.
// In a backlog it ends after 100 ms, or when it covers as much request time as the stream may be ahead of others (see
// package pace). It also ends when a partition's batch is full. A cut is sent once it is
// noted and is not ahead of others; if the journal sends noted cuts by itself after a restart, the cut is noted only
// then (LateNotes). While 64 cuts or 8 MiB are in flight, Add waits, and the source with it.
//
// stream_source.go has what the source calls, stream_judge.go makes hits of records, and stream_cut.go makes cuts and
// sends them.
type Stream struct {
	in        *Intake
	log       string
	source    string
	journal   Journal
	sender    Send
	keep      func(position int64) []byte
	measure   func() (lag int64, known bool)
	member    *pace.Member
	notBefore int64
	lateNotes bool
	unsynced  bool
	oneRule   bool
	beat      *beat // nil: cuts end at once
	beaten    int64 // the period of the last cut

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
	open      *Cut  // the cut in progress; nil when no record was added since the last one
	noHitYet  bool  // the record that is being read has added no hit yet
	continues bool  // it continues a line
	full      bool  // a partition's batch is full
	added     int
	writers   []*hit.Writer // of the open cut, by partition; nil for those without a hit
	used      []int         // partitions, in the order of their first hit
	hits      int
	copier    copier // for evidence
	ender     ender  // for limits at once

	ids      request.IDs // of a source with dedupe
	seenText []byte      // what is hashed, for dedupe
	outer    []string

	record string
	nth    int // of the requests of the record, which one is being judged
	err    error
	behind bool // there is more to read, although not available at the moment

	flying      []*Cut // in their order: not yet given to the journal, not yet noted, noted, sent
	flyingBytes int
	held        bool          // the first that is not sent is ahead of others
	refused     int           // cuts with batches that Kafka refused
	wake        chan struct{} // a journal or the producer has changed a cut
	timer       *time.Timer

	again   []Again // cuts that are still to be made again
	againBy *ruling // makes them

	listed *shownStream
	shown  atomic.Pointer[LogStatus]
	lag    atomic.Int64
}

// StreamConfig is the part of a stream that depends on its log.
type StreamConfig struct {
	Log       string       // its name in the status: a path, topic/partition, an address
	Source    string       // in the batches: constant, but new for every incarnation
	Position  int64        // to begin at
	Reached   int64        // request time reached before; pace.NoTime when unknown
	Member    *pace.Member // nil is never held
	NotBefore int64        // Unix ms: older requests are not counted; pace.NoTime is no limit

	Journal   Journal                     // nil keeps nothing: hits that were not acknowledged are lost with the process
	Keep      func(position int64) []byte // the source's note in the journal for a cut that ends there; nil is none
	Send      Send                        // of its cuts; nil is the pipeline's
	LateNotes bool                        // cuts are noted when they may be sent, not before: at its next start the journal sends all its cuts
	AtOnce    bool                        // senders wait for an answer: cuts are not grouped with others
	Unsynced  bool                        // its records can be read again for a while: a cut that is sent with its note need not be synced with it
	OneRule   bool                        // rules change only when nothing is in flight: the journal notes one set only

	// Measure returns how much waits to be read, if that is known, while the stream waits: for a log that grows
	// meanwhile. nil is for others.
	Measure func() (lag int64, known bool)

	Again       []Again         // cuts that were noted by an earlier owner and must be made again, in their order
	Fingerprint string          // of the rules that made them; the present ones are used when these are not known
	Choice      *request.Choice // the form of their records; nil is the configured one
}

// An Again is a cut that has to be made again from the same records, by the same rules and clock.
type Again struct{ From, To, Clock int64 }

// woken makes the stream look at its cuts. It does not block and may be called from any goroutine.
func (s *Stream) woken() { sleep.Wake(s.wake) }

// midLine reports whether parts of a line are missing. Its beginning has to be read again after a crash, so no cut ends
// there.
func (s *Stream) midLine() bool { return s.decoder != nil && s.decoder.Pending() }

// Show publishes the stream's state for the status.
func (s *Stream) Show() {
	status := &LogStatus{Log: s.log, Source: s.source, Position: s.position, InFlight: len(s.flying)}
	if s.hits > 0 { // in the open cut
		status.InFlight++
	}
	if s.reached != pace.NoTime {
		status.Newest = time.UnixMilli(s.reached).UTC()
	}
	s.shown.Store(status)
}

// logStatus is the status of the log. It may be called from any goroutine.
func (s *Stream) logStatus() LogStatus {
	lag := s.lag.Load() // before what was shown before it
	log := *s.shown.Load()
	log.Lag, log.Holding = lag, s.member != nil && s.member.Held()
	return log
}

// dropParts gives the memory back that the parts of lines use.
func (s *Stream) dropParts() {
	if s.decoder != nil {
		s.decoder.Drop()
	}
}

// A form is how records are decoded.
type form struct{ envelope, format string }

func formOf(c *request.Choice) form { return form{c.Envelope, c.Format} }
