package topics

import (
	"context"
	"errors"
	"sync"
	"time"

	"weir/internal/kafka"
	"weir/internal/topic"
	"weir/pkg/attempts"
	"weir/pkg/collector/pace"
	"weir/pkg/collector/pipeline"
	"weir/pkg/request"
)

const sampleRecords = 500

// errTakeOver means that the log is not the one that was read, or may not be: reading has to begin again with a
// takeover.
var errTakeOver = errors.New("the log has to be taken over again")

// A partitionReader reads a partition from where it was taken over. One goroutine owns it; the fetcher and the journal have
// one each.
type partitionReader struct {
	in      *pipeline.Intake
	log     string // the partition's name
	stream  *pipeline.Stream
	fetcher *fetcher
	choice  *request.Choice                // the form of the records, where it was found out
	chose   func(envelope, format string)  // notes that form
	passed  func(position int64, end bool) // notes how far it is read, and whether all was read
	read    readRecords
	headers []string         // that are fields
	outer   []string         // their values
	repeats attempts.Repeats // of the records that were read, where they are attempts at inline rules
	gone    bool             // the topic was missing when last fetched
	behind  bool             // there is more to read

	// confirm checks that the topic is still the one that was taken over; nil does not. doubted asks for a check now.
	confirm  func(ctx context.Context, doubted bool) error
	answered time.Time // when the last fetch succeeded
	failed   bool      // the one after it did not
}

// readRecords are those that are being read, and the last one before them.
type readRecords struct {
	before  recordID
	records []topic.Record
	at      int  // index of the one that is being read
	tried   bool // they were used to find out the form
}

// run reads until the context is done, the log has to be taken over again, or the partition is lost.
func (o *ownership) run(ctx context.Context) error {
	t, err := o.takeOver(ctx)
	if err != nil {
		return err
	}

	r, journal := o.reader(&t)
	defer r.stream.Close()
	r.setBehind(true)

	// The journal has to outlive ctx: the last cuts are committed after the partition is to be given up.
	living, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	go func() {
		if err := pipeline.Contained(func() error { journal.run(living); return nil }); err != nil {
			journal.refuse(err)
		}
	}()

	err = pipeline.Contained(func() error { return r.readAll(ctx) })

	// Wait for the cuts in flight, though not for long.
	patient, done := pipeline.Draining(ctx)
	defer done()
	context.AfterFunc(patient, cancel)
	if pipeline.IsPanic(err) {
		r.stream.Abandon() // the next owner makes its noted cuts again
		journal.close()
		return err
	}

	unsent, left := r.stream.Leave(patient)
	if left != nil && !errors.Is(left, topic.ErrExpelled) {
		r.in.Logger().Info("left to the next owner", "log", r.log, "why", left)
	}
	journal.drop(unsent)
	journal.close()
	return err
}

// reader makes the reader that continues after a takeover, and its journal.
func (o *ownership) reader(t *takeover) (*partitionReader, *commitJournal) {
	member := o.partition.member
	counted := func(offset, reached int64) { o.source.counted(o.partition, offset, reached) }
	journal := newCommitJournal(o.source.in, o.claim, member, t, counted)
	r := &partitionReader{in: o.source.in, headers: o.source.config.Headers, log: o.name(), choice: t.note.choice(), chose: journal.chose}
	r.repeats, _ = attempts.ReadRepeats(t.note.Writers) // of a damaged note none
	r.passed = func(position int64, end bool) {
		o.source.passed(o.partition, position)
		journal.atEnd(end)
	}
	if t.note.Last != nil {
		r.read.before = *t.note.Last
	}
	if len(t.again) > 0 {
		r.in.Logger().Info("making the batches again that Kafka may not have had", "log", r.log, "cuts", len(t.again), "from", t.offset, "to", t.end())
	}

	r.stream = r.in.NewStream(pipeline.StreamConfig{
		Log: r.log, Source: o.sourceName(t.note.Incarnation), Position: t.offset, Reached: t.note.reached(),
		Journal: journal, Keep: r.keep, Member: member, NotBefore: pace.NoTime, OneRule: true,
		Again: t.again, Fingerprint: t.note.Rules, Choice: r.choice,
	})
	r.fetcher = newFetcher(o.source.client, o.partition.topicPartition, r.stream.Position(), o.source.in.Now)
	return r, journal
}

// setBehind notes whether there is more to read.
func (r *partitionReader) setBehind(behind bool) {
	r.behind = behind
	r.stream.SetBehind(behind)
}

// readAll reads records, and notes each position that it has reached.
func (r *partitionReader) readAll(ctx context.Context) error {
	fetching, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer r.fetcher.reader.GiveRoom()
	defer running.Wait()
	defer cancel()
	running.Go(func() { r.fetcher.run(fetching) })

	for {
		if err := r.makeRoom(ctx); err != nil {
			return err
		}
		r.fetcher.want <- struct{}{}
		if err := r.stream.Wait(ctx, r.fetcher.more); err != nil {
			return err
		}
		if err := r.fetched(ctx); err != nil {
			return err
		}

		position := r.stream.Position()
		r.stream.SetLag(max(0, r.fetcher.reader.Span().End-position))
		r.passed(position, r.stream.AtEnd())
	}
}

// makeRoom waits until the partition may have a long record in memory, if the next one is long. Before, the stream
// becomes ready to take it without waiting for other partitions: they may be waiting for this room.
func (r *partitionReader) makeRoom(ctx context.Context) error {
	if !r.fetcher.reader.NeedsRoom() {
		return nil
	}
	if err := r.stream.Ready(ctx); err != nil {
		return err
	}
	return r.fetcher.reader.MakeRoom(ctx)
}

// fetched handles the result of a fetch.
func (r *partitionReader) fetched(ctx context.Context) error {
	err := r.fetcher.err
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case pipeline.IsPanic(err):
		return err
	case errors.Is(err, topic.ErrTrimmed):
		if r.confirm != nil {
			if err := r.confirm(ctx, true); err != nil {
				return err
			}
		}
		return r.trimmed(ctx)
	case errors.Is(err, topic.ErrPastEnd):
		return errTakeOver
	default:
		r.in.Fault(r.log, err) // the client has logged it
		r.gone = r.gone || errors.Is(err, topic.ErrNoTopic)
		r.failed = true
		return nil
	}

	if r.gone {
		return errTakeOver
	}
	if r.behind || r.failed {
		r.in.Fault(r.log, nil)
	}
	if err := r.confirmed(ctx); err != nil {
		return err
	}
	return r.feed(ctx, r.fetcher.records)
}

// doubtAfter is the time between two answers after which the topic may have been made again in between.
const doubtAfter = 2 * time.Second

// confirmed checks that fetched records are of the topic that was taken over. A topic that is deleted and made again
// cannot be fetched for a moment, so only an answer after a failure or a pause is in doubt.
func (r *partitionReader) confirmed(ctx context.Context) error {
	at := r.fetcher.at
	doubted := r.failed || at.Sub(r.answered) > doubtAfter || at.Round(0).Sub(r.answered.Round(0)) > doubtAfter // without and with the time of a suspended machine
	r.answered, r.failed = at, false
	if r.confirm == nil {
		return nil
	}
	return r.confirm(ctx, doubted)
}

// feed gives fetched records to the stream.
func (r *partitionReader) feed(ctx context.Context, records []topic.Record) error {
	r.read.records = records
	for i := range records {
		r.read.at = i
		if err := r.learn(ctx); err != nil {
			return err
		}
		if err := r.add(ctx, &records[i]); err != nil {
			return err
		}
	}

	r.read.end()
	r.fetcher.reader.GiveRoom()
	next := r.fetcher.reader.Next()
	if next > r.stream.Position() {
		if err := r.stream.Skip(ctx, next); err != nil {
			return err
		}
	}

	r.setBehind(next < r.fetcher.reader.Span().End)
	return nil
}

func (r *partitionReader) add(ctx context.Context, record *topic.Record) error {
	r.setOuter(record)
	if record.Long {
		return r.stream.Lost(ctx, record.Value, pipeline.ReasonLong, record.Offset+1)
	}
	mark, ours := attempts.MarkOf(request.Text(record.Value))
	if !ours {
		return r.stream.Add(ctx, record.Value, record.Offset+1)
	}
	if r.repeats.Has(mark) {
		return r.stream.Skip(ctx, record.Offset+1)
	}
	err := r.stream.Add(ctx, record.Value, record.Offset+1)
	r.repeats.See(mark) // after it: keep is asked about the position before this record too
	return err
}

// longestHeader is how long the value of a header may be that is a field; longer ones count as missing.
const longestHeader = 4 << 10

// setOuter gives the stream the headers of a record that are fields.
func (r *partitionReader) setOuter(record *topic.Record) {
	if len(r.headers) == 0 {
		return
	}
	r.outer = r.outer[:0]
	for _, name := range r.headers {
		value, _ := kafka.Header(record.Headers, name)
		if len(value) > longestHeader {
			value = nil
		}
		r.outer = append(r.outer, request.Text(value))
	}
	r.stream.SetOuter(r.outer)
}

// keep returns what a commit's journal notes at a position: the last record before it, and the attempts seen until then.
func (r *partitionReader) keep(position int64) []byte {
	b := r.read.lastBytes(position)
	if b == nil {
		return nil
	}
	seen := r.repeats
	if at := r.read.at; at < len(r.read.records) && r.read.records[at].Offset < position {
		if mark, ours := attempts.MarkOf(request.Text(r.read.records[at].Value)); ours {
			seen = seen.Clone()
			seen.See(mark)
		}
	}
	return seen.Append(b)
}

// learn finds out the form where it is not configured. Cuts that are made again are made in their old form. A cut has
// one form, which is noted with it: so Kafka must have all cuts of the old form before a new form begins.
func (r *partitionReader) learn(ctx context.Context) error {
	if !r.stream.Learns() || r.read.tried {
		return nil
	}

	sample := r.read.sample()
	r.read.tried = true
	if err := r.stream.Drain(ctx); err != nil {
		return err
	}

	r.choice = r.stream.Learn(sample, r.choice)
	if !r.stream.Learns() && r.choice != nil {
		r.chose(r.choice.Envelope, r.choice.Format)
	}
	return nil
}

// trimmed continues where the log begins now.
func (r *partitionReader) trimmed(ctx context.Context) error {
	start := r.fetcher.reader.Span().Start
	count := start - r.stream.Position()
	r.in.Uncounted(pipeline.ReasonLost, count)
	r.in.Logger().Error("records were deleted before they were read: their requests are not counted", "log", r.log,
		"records", count, "from", r.stream.Position(), "to", start)
	r.fetcher.reader.SetNext(start)
	return r.stream.Skip(ctx, start)
}

// sample returns the texts from which the form is found out.
func (r *readRecords) sample() []string {
	var sample []string
	for _, record := range r.records[r.at:min(len(r.records), r.at+sampleRecords)] {
		switch {
		case record.Long:
		case len(record.Value) > fetchBytes: // a copy would need as much room again
			sample = append(sample, request.Text(record.Value))
		default:
			sample = append(sample, string(record.Value))
		}
	}
	return sample
}

// lastBytes returns the last record before a position, for a commit's journal.
func (r *readRecords) lastBytes(position int64) []byte {
	last := r.last(position)
	if last == (recordID{}) {
		return nil
	}
	return last.append(nil)
}

// last returns the last record before a position; zero when it is not known.
func (r *readRecords) last(position int64) recordID {
	last := r.before
	for i := r.at; i >= 0 && i < len(r.records); i-- {
		if r.records[i].Offset < position {
			last = idOf(&r.records[i])
			break
		}
	}
	return last
}

// end forgets the records, which are read, except the last one.
func (r *readRecords) end() {
	if n := len(r.records); n > 0 {
		r.before = idOf(&r.records[n-1])
	}
	r.records, r.tried = nil, false
}
