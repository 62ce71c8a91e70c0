package topics

import (
	"context"
	"fmt"
	"strings"
	"time"

	"weir/internal/sleep"
	"weir/internal/topic"
	"weir/pkg/collector/journal"
	"weir/pkg/collector/pace"
	"weir/pkg/collector/pipeline"
)

// An aloneReader reads a partition of a source without a group. One goroutine uses it.
type aloneReader struct {
	source    *alone
	partition *alonePartition

	log      string    // its name
	note     aloneNote // in the journal with each cut
	markedAt time.Time // when the note's mark was set
	offset   int64     // to begin at
	reached  int64     // the request time there
}

func (r *aloneReader) key() logKey {
	return logKey{r.source.in.Name(), r.partition.topicPartition}
}

// run reads until the context is done, or the partition has to begin again.
func (r *aloneReader) run(ctx context.Context) error {
	if err := r.resume(ctx); err != nil {
		return err
	}

	reader := r.reader()
	defer reader.stream.Close()
	reader.setBehind(true)
	err := pipeline.Contained(func() error { return reader.readAll(ctx) })
	if pipeline.IsPanic(err) {
		reader.stream.Abandon() // the journal has its noted cuts
		return err
	}

	patient, done := pipeline.Draining(ctx)
	defer done()
	if _, left := reader.stream.Leave(patient); left != nil {
		r.source.in.Logger().Info("left in the journal", "log", r.partition.String(), "why", left)
	}
	return err
}

func (r *aloneReader) reader() *partitionReader {
	k, p := r.source, r.partition
	member := k.memberOf(p)
	member.Wait(false)
	member.Idle(false)
	reader := &partitionReader{in: k.in, headers: k.config.Headers, log: p.String(), choice: r.note.choice(), answered: k.in.Now()}
	reader.chose = func(envelope, format string) { r.note.Envelope, r.note.Format = envelope, format }
	reader.confirm = r.confirm
	if r.note.Last != nil {
		reader.read.before = *r.note.Last
	}

	reader.stream = k.in.NewStream(pipeline.StreamConfig{
		Log: p.String(), Source: r.log, Position: r.offset, Reached: r.reached, Journal: k.logs.cuts, Send: k.logs.cuts.Send,
		Keep: func(position int64) []byte { return r.keep(reader.read.last(position)) }, Member: member, NotBefore: pace.NoTime, LateNotes: true,
		Measure: func() (int64, bool) { return k.waiting(p, reader.stream.Position()) },
	})
	reader.fetcher = newFetcher(k.client, p.topicPartition, r.offset, k.in.Now)
	reader.passed = func(position int64, _ bool) {
		k.passed(p, position, reader.fetcher.reader.Span().End, reader.fetcher.err == nil)
	}
	k.passed(p, r.offset, 0, false)
	return reader
}

// keep returns the note for a position after a record.
func (r *aloneReader) keep(last recordID) []byte {
	if last != (recordID{}) {
		if r.note.Mark == nil || r.source.in.Now().Sub(r.markedAt) > markEvery {
			r.note.Mark, r.markedAt = r.note.Last, r.source.in.Now()
		}
		r.note.Last, r.note.At = &last, r.source.in.Now().UnixMilli()
	}
	return r.note.bytes()
}

// confirm ends the reading when the topic is not the one that was taken over, or that is not known.
func (r *aloneReader) confirm(ctx context.Context, doubted bool) error {
	id, err := r.source.identity(ctx, r.partition.topic, doubted)
	if err != nil || !id.Is(r.note.Identity) {
		return errTakeOver
	}
	return nil
}

// resume determines where to continue. It tries until the context is done.
func (r *aloneReader) resume(ctx context.Context) error {
	for {
		err := r.tryResume(ctx)
		if err == nil {
			r.source.in.MendedOf(r.partition.String(), "take", "read", "run")
			r.source.logs.forget(ctx, r.key())
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		r.source.in.TroubleOf(r.partition.String(), "take", fmt.Errorf("beginning to read %s: %w", r.partition.topicPartition, err))
		sleep.For(ctx, retryEvery)
	}
}

func (r *aloneReader) tryResume(ctx context.Context) error {
	id, err := r.source.identity(ctx, r.partition.topic, true)
	if err != nil {
		return err
	}
	span, err := r.span(ctx)
	if err != nil {
		return err
	}

	r.log = r.source.logs.find(r.key())
	if r.log == "" {
		return r.begin(ctx, &takeover{offset: -1, whyNew: "nothing is stored about it"}, id, span)
	}
	was, err := r.source.logs.cuts.Standing(ctx, r.log)
	if err != nil {
		return err
	}
	if was == nil || !r.read(was) {
		return fmt.Errorf("the journal has no position of %s", r.log) // it had one when it was opened
	}

	t := &takeover{note: r.note.kafkaNote, offset: r.offset}
	span, err = r.check(ctx, t, id, span)
	if err == nil && t.whyNew != "" {
		return r.begin(ctx, t, id, span)
	}
	r.note.Identity = id // brokers may not have known ids before
	return err
}

// read takes the state of the log in the journal.
func (r *aloneReader) read(was *journal.Log) (ok bool) {
	r.note, ok = readAloneNote(was.Note)
	r.offset, r.reached = was.Position, was.Reached
	return ok
}

func (r *aloneReader) span(ctx context.Context) (topic.Span, error) {
	return r.source.client.PartitionSpan(ctx, r.partition.topic, r.partition.number)
}

// check finds out whether the log is the one that was read, and has all of that. It returns the present extent.
func (r *aloneReader) check(ctx context.Context, t *takeover, id topic.Identity, span topic.Span) (now topic.Span, err error) {
	if !id.Is(r.note.Identity) {
		t.offset, t.whyNew = -1, fmt.Sprintf("its topic is another one: it was %s and is %s", r.note.Identity, id)
		return span, nil
	}
	if t.offset > span.End { // a new leader may not know yet how far its log goes
		sleep.For(ctx, lookAgain)
		if span, err = r.span(ctx); err != nil {
			return span, err
		}
	}

	known := !strings.HasSuffix(string(id), "/") && !strings.HasSuffix(string(r.note.Identity), "/")
	switch {
	case t.offset > span.End:
		t.beyond = true
		t.whyNew = fmt.Sprintf("its log ends at %d, but it was read up to %d", span.End, t.offset)
		t.offset = -1
		renewed, err := t.renewed(ctx, r.source.client, r.partition.topicPartition, span)
		if err != nil {
			return span, err
		}
		if known && !renewed {
			t.whyNew += "; it was cut off, and its present records were read before"
			t.offset, t.cut = span.End, true
			return span, nil
		}
	case known:
		return span, nil
	}
	return span, t.verify(ctx, r.source.client, r.partition.topicPartition, span)
}

// begin begins the partition as a new log, which the journal has before any record is read.
func (r *aloneReader) begin(ctx context.Context, t *takeover, id topic.Identity, span topic.Span) (err error) {
	k, p, stored, again := r.source, r.partition, r.log != "", t.offset >= 0
	r.offset, r.reached = min(max(t.offset, span.Start), span.End), pace.NoTime
	if !again {
		r.offset = span.Start
		if !stored && !p.later && !k.logs.younger(r.key()) {
			if r.offset, err = startOf(ctx, k.client, p.topicPartition, k.config.Start, span, k.in.Now()); err != nil {
				return err
			}
		}
	}
	count, err := k.client.Partitions(ctx, p.topic)
	if err != nil {
		return err
	}

	r.log = logName(r.key(), id, again)
	r.note = aloneNote{Source: k.in.Name(), Topic: p.topic, Partition: p.number, Identity: id, Begun: k.in.Now().UnixMilli(), kafkaNote: kafkaNote{Partitions: count}}
	if err := k.logs.begin(ctx, r.log, r.offset, r.note); err != nil {
		return err
	}

	say := k.in.Logger().Info
	if stored {
		say = k.in.Logger().Error
	}
	say("a partition begins as a new source", "log", p.String(), "why", t.whyNew, "from", r.offset, "id", r.log)
	if t.cut {
		k.in.Incident("cut off", fmt.Errorf("%s: %s", p, t.whyNew))
	}
	warnOfCompaction(ctx, k.client, p.topicPartition, k.in.Logger())
	k.begun(p)
	return nil
}
