package topics

import (
	"context"
	"errors"
	"fmt"

	"weir/internal/kafka"
	"weir/pkg/collector/pace"
	"weir/pkg/collector/pipeline"
	"weir/pkg/request"
)

const (
	fetchBytes    = 1 << 20
	sampleRecords = 500
)

// errTakeOver means that the log is not the one that was read, or may not be: reading has to begin again with a
// takeover.
var errTakeOver = errors.New("the log has to be taken over again")

// A partitionReader reads a partition from the takeover until it is given up. One goroutine owns it; another one
// fetches.
type partitionReader struct {
	*source
	*partition
	claim   *kafka.Claim
	journal *commitJournal
	stream  *pipeline.Stream
	choice  *request.Choice

	reader  *kafka.Reader
	want    chan struct{}  // fetch the next records; the last ones are not needed any more
	more    chan struct{}  // the next records have arrived
	next    []kafka.Record // next and err belong to the fetching goroutine until it sends to more
	err     error
	records []kafka.Record // that are being read

	at     int // index in records of the one that is being read
	before recordID
	tried  bool // the last fetched records were used to find out the form
	gone   bool // the topic was missing when last fetched
	behind bool // there is more to read
}

// run reads until the context is done, the log has to be taken over again, or the partition is lost.
func (r *partitionReader) run(ctx context.Context) error {
	t, err := r.takeOver(ctx)
	if err != nil {
		return err
	}

	r.open(&t)
	defer r.stream.Close()
	r.setBehind(true)

	// The journal has to outlive ctx: the last cuts are committed after the partition is to be given up.
	living, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	go func() {
		if err := pipeline.Contained(func() error { r.journal.run(living); return nil }); err != nil {
			r.journal.refuse(err)
		}
	}()

	err = pipeline.Contained(func() error { return r.read(ctx) })
	patient, done := pipeline.Draining(ctx)
	defer done()
	context.AfterFunc(patient, cancel)
	if pipeline.IsPanic(err) {
		r.stream.Abandon() // the next owner makes its noted cuts again
		r.journal.close()
		return err
	}

	unsent, left := r.stream.Leave(patient)
	if left != nil && !errors.Is(left, kafka.ErrExpelled) {
		r.in.Logger().Info("left to the next owner", "log", r.topicPartition.String(), "why", left)
	}
	r.journal.drop(unsent)
	r.journal.close()
	return err
}

func (r *partitionReader) open(t *takeover) {
	r.choice = t.note.choice()
	r.journal = newCommitJournal(r.in, r.claim, r.member, t)
	config := pipeline.StreamConfig{
		Log: r.topicPartition.String(), Source: r.sourceName(t.note.Incarnation), Position: t.offset, Reached: t.note.reached(),
		Journal: r.journal, Keep: r.keep, Member: r.member, NotBefore: pace.NoTime, OneRule: true,
		Again: t.again, Fingerprint: t.note.Rules, Choice: r.choice,
	}

	if t.note.Last != nil {
		r.before = *t.note.Last
	}
	if len(t.again) > 0 {
		r.in.Logger().Info("making the batches again that Kafka may not have had", "log", config.Log, "cuts", len(t.again), "from", t.offset, "to", t.end())
	}

	r.stream = r.in.NewStream(config)
}

// setBehind notes whether there is more to read.
func (r *partitionReader) setBehind(behind bool) {
	r.behind = behind
	r.stream.SetBehind(behind)
}

// sourceName is the source that the batches carry.
func (r *partitionReader) sourceName(incarnation string) string {
	return fmt.Sprintf("%s/%s/%s", r.topicPartition, r.cluster, incarnation)
}

// read reads records.
func (r *partitionReader) read(ctx context.Context) error {
	fetching, cancel := context.WithCancel(ctx)
	r.reader = r.client.NewReader(r.topic, r.number, r.stream.Position())
	r.reader.MaxBytes = fetchBytes
	r.want, r.more = make(chan struct{}, 1), make(chan struct{}, 1)
	ended := make(chan struct{})
	defer func() {
		cancel()
		<-ended
	}()

	go func() {
		defer close(ended)
		r.fetch(fetching)
	}()

	for {
		r.want <- struct{}{}
		if err := r.stream.Wait(ctx, r.more); err != nil {
			return err
		}
		if err := r.fetched(ctx); err != nil {
			return err
		}
		r.stream.SetLag(max(0, r.reader.Span().End-r.stream.Position()))
		r.passed(r.partition, r.stream.Position())
		r.journal.atEnd(r.stream.AtEnd())
	}
}

// fetch fetches records on request.
func (r *partitionReader) fetch(ctx context.Context) {
	for {
		select {
		case <-r.want:
		case <-ctx.Done():
			return
		}
		r.err = pipeline.Contained(func() (err error) {
			r.next, err = r.reader.Fetch(ctx)
			return err
		})
		r.more <- struct{}{}
	}
}

// fetched handles the result of a fetch.
func (r *partitionReader) fetched(ctx context.Context) error {
	switch {
	case r.err == nil:
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case pipeline.IsPanic(r.err):
		return r.err
	case errors.Is(r.err, kafka.ErrTrimmed):
		return r.trimmed(ctx)
	case errors.Is(r.err, kafka.ErrPastEnd):
		return errTakeOver
	default:
		r.in.Fault(r.err) // the client has logged it
		r.gone = r.gone || errors.Is(r.err, kafka.ErrNoTopic)
		return nil
	}

	if r.gone {
		return errTakeOver
	}
	if r.behind {
		r.in.Fault(nil)
	}
	return r.feed(ctx)
}

// feed gives the fetched records to the stream.
func (r *partitionReader) feed(ctx context.Context) error {
	r.records = r.next
	for i := range r.records {
		r.at = i
		if err := r.learn(ctx); err != nil {
			return err
		}
		if err := r.add(ctx, &r.records[i]); err != nil {
			return err
		}
	}

	if n := len(r.records); n > 0 {
		r.before = idOf(&r.records[n-1])
	}
	r.records, r.tried = nil, false
	if next := r.reader.Next(); next > r.stream.Position() {
		if err := r.stream.Skip(ctx, next); err != nil {
			return err
		}
	}

	r.setBehind(r.reader.Next() < r.reader.Span().End)
	return nil
}

func (r *partitionReader) add(ctx context.Context, record *kafka.Record) error {
	if record.Long {
		return r.stream.Lost(ctx, record.Value, pipeline.ReasonLong, record.Offset+1)
	}
	return r.stream.Add(ctx, record.Value, record.Offset+1)
}

// learn finds out the form where it is not configured. Cuts that are made again are made in their old form. A cut has
// one form, which is noted with it: so Kafka must have all cuts of the old form before a new form begins.
func (r *partitionReader) learn(ctx context.Context) error {
	if !r.stream.Learns() || r.tried {
		return nil
	}
	var sample []string
	for _, record := range r.records[r.at:min(len(r.records), r.at+sampleRecords)] {
		if !record.Long {
			sample = append(sample, string(record.Value))
		}
	}

	r.tried = true
	if err := r.stream.Drain(ctx); err != nil {
		return err
	}

	r.choice = r.stream.Learn(sample, r.choice)
	if !r.stream.Learns() && r.choice != nil {
		r.journal.chose(r.choice.Envelope, r.choice.Format)
	}
	return nil
}

// keep returns the last record before a position, for the journal.
func (r *partitionReader) keep(position int64) []byte {
	last := r.before
	for i := r.at; i >= 0 && i < len(r.records); i-- {
		if r.records[i].Offset < position {
			last = idOf(&r.records[i])
			break
		}
	}
	if last == (recordID{}) {
		return nil
	}
	return last.append(nil)
}

// trimmed continues where the log begins now.
func (r *partitionReader) trimmed(ctx context.Context) error {
	start := r.reader.Span().Start
	count := start - r.stream.Position()
	r.in.Uncounted(pipeline.ReasonLost, count)
	r.in.Logger().Error("records were deleted before they were read: their requests are not counted", "log", r.topicPartition.String(),
		"records", count, "from", r.stream.Position(), "to", start)
	r.reader.SetNext(start)
	return r.stream.Skip(ctx, start)
}
