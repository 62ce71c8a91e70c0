package collector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/internal/kafka"
	"weir/pkg/request"
)

const (
	fetchBytes    = 1 << 20
	awaitRules    = 30 * time.Second
	lookForRules  = 250 * time.Millisecond
	lookAgain     = time.Second
	sampleRecords = 500
)

// errAnew is that the log is not the one that was read, or may not be: it has to be taken up anew.
var errAnew = errors.New("the log has to be taken up anew")

// A reading is one taking of a partition: from finding where to go on until it is given up. It is one goroutine's,
// and has another that fetches.
type reading struct {
	*kafkaSource
	*partition
	claim   *kafka.Claim
	journal *commitJournal
	stream  *stream
	choice  *request.Choice

	reader  *kafka.Reader
	want    chan struct{} // fetch the next records; the last ones are not needed any more
	more    chan struct{} // they are there
	records []kafka.Record
	err     error

	at     int // index of the record that is being read
	before seen
	gone   bool // the topic was missing when last fetched
}

// run reads until the context is done, the log has to be taken up anew, or the partition is lost.
func (r *reading) run(ctx context.Context) error {
	t, err := r.take(ctx)
	if err != nil {
		return err
	}
	r.open(&t)
	defer r.stream.close()
	living, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	go r.journal.run(living)
	err = r.read(ctx)
	patient, done := draining(ctx)
	defer done()
	context.AfterFunc(patient, cancel)
	if left := r.stream.drain(patient); left != nil && !errors.Is(left, kafka.ErrExpelled) {
		r.logger.Info("left to the next owner", "log", r.stream.log, "why", left)
	}
	r.journal.close()
	return err
}

func (r *reading) open(t *takeover) {
	r.choice = t.note.choice()
	r.journal = newCommitJournal(r.kafkaSource, r.claim, r.member, t)
	config := streamConfig{
		log: r.topicPartition.String(), source: r.sourceName(t.note.Incarnation), position: t.offset, reached: t.note.reached(),
		journal: r.journal, keep: r.keep, member: r.member, notBefore: noTime, oneRule: true,
	}
	if t.note.Last != nil {
		r.before = *t.note.Last
	}
	if len(t.again) > 0 {
		for _, c := range t.again {
			config.again = append(config.again, again{from: c.from, to: c.to, clock: c.clock, ruling: t.by})
		}
		r.logger.Info("making cuts again that Kafka may not have had", "log", config.log, "cuts", len(t.again), "from", t.offset, "to", t.end())
	}
	r.stream = r.newStream(config)
	r.stream.behind = true
}

// sourceName is what the batches bear.
func (r *reading) sourceName(incarnation string) string {
	return fmt.Sprintf("%s/%s/%s", r.topicPartition, r.cluster, incarnation)
}

// read reads records.
func (r *reading) read(ctx context.Context) error {
	fetching, cancel := context.WithCancel(ctx)
	r.reader = r.client.NewReader(r.topic, r.number, r.stream.position)
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
		if err := r.stream.wait(ctx, r.more); err != nil {
			return err
		}
		if err := r.fetched(ctx); err != nil {
			return err
		}
		r.stream.lag.Store(max(0, r.reader.Span().End-r.stream.position))
		r.journal.atEnd(!r.stream.behind && r.stream.hits == 0)
	}
}

// fetch fetches when that is wanted.
func (r *reading) fetch(ctx context.Context) {
	for {
		select {
		case <-r.want:
		case <-ctx.Done():
			return
		}
		r.records, r.err = r.reader.Fetch(ctx)
		r.more <- struct{}{}
	}
}

// fetched reads what has come.
func (r *reading) fetched(ctx context.Context) error {
	switch {
	case r.err == nil:
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(r.err, kafka.ErrTrimmed):
		return r.trimmed(ctx)
	case errors.Is(r.err, kafka.ErrPastEnd):
		return errAnew
	default:
		r.fault.Store(&fault{r.err.Error(), time.Now()}) // the client has said it
		r.gone = r.gone || errors.Is(r.err, kafka.ErrNoTopic)
		return nil
	}
	if r.gone {
		return errAnew
	}
	if fault := r.fault.Load(); fault != nil && r.stream.behind {
		r.fault.Store(nil)
	}
	return r.feed(ctx)
}

// feed has the stream take the records.
func (r *reading) feed(ctx context.Context) error {
	r.learn()
	for i := range r.records {
		r.at = i
		if err := r.stream.add(ctx, r.records[i].Value, r.records[i].Offset+1); err != nil {
			return err
		}
	}
	if n := len(r.records); n > 0 {
		r.before = seeRecord(&r.records[n-1])
	}
	r.records = nil
	if next := r.reader.Next(); next > r.stream.position {
		if err := r.stream.skip(ctx, next); err != nil {
			return err
		}
	}
	r.stream.behind = r.reader.Next() < r.reader.Span().End
	r.stream.watch.live = r.stream.watch.live || !r.stream.behind
	return nil
}

// learn finds out the format where that is not configured.
func (r *reading) learn() {
	if r.stream.decoder != nil || len(r.records) == 0 {
		return
	}
	var sample []string
	for _, record := range r.records[:min(len(r.records), sampleRecords)] {
		sample = append(sample, string(record.Value))
	}
	r.choice = r.stream.learn(sample, r.choice)
	if r.stream.decoder != nil && r.choice != nil {
		r.journal.chose(r.choice.Envelope, r.choice.Format)
	}
}

// keep is the last record before a position, for the journal.
func (r *reading) keep(position int64) []byte {
	last := r.before
	for i := r.at; i >= 0 && i < len(r.records); i-- {
		if r.records[i].Offset < position {
			last = seeRecord(&r.records[i])
			break
		}
	}
	if last == (seen{}) {
		return nil
	}
	return last.append(nil)
}

// trimmed goes on where the log begins now.
func (r *reading) trimmed(ctx context.Context) error {
	start := r.reader.Span().Start
	count := start - r.stream.position
	r.metrics.uncounted[reasonLost].Add(float64(count))
	r.logger.Error("records were deleted before they were read: their requests are not counted", "log", r.stream.log,
		"records", count, "from", r.stream.position, "to", start)
	r.reader.SetNext(start)
	return r.stream.skip(ctx, start)
}

// take finds where to go on. It tries until the context is done.
func (r *reading) take(ctx context.Context) (takeover, error) {
	for {
		t, err := r.tryTake(ctx)
		if err == nil || ctx.Err() != nil || errors.Is(err, kafka.ErrExpelled) {
			return t, err
		}
		r.trouble("take", fmt.Errorf("taking up %s: %w", r.topicPartition, err))
		pause(ctx, retryEvery)
	}
}

func (r *reading) tryTake(ctx context.Context) (takeover, error) {
	commits, err := r.client.Committed(ctx, r.group, r.topic)
	if err != nil {
		return takeover{}, err
	}
	r.hear(r.topic, commits, nil)
	span, err := r.client.PartitionSpan(ctx, r.topic, r.number)
	if err != nil {
		return takeover{}, err
	}
	t, err := takeUp(commits[r.number], span)
	if t.beyond { // a leader that is new may not know yet how far its log goes
		pause(ctx, lookAgain)
		if span, err = r.client.PartitionSpan(ctx, r.topic, r.number); err == nil {
			t, err = takeUp(commits[r.number], span)
		}
	}
	if err == nil {
		err = r.verify(ctx, &t, span)
	}
	if err == nil && t.anew != "" {
		err = r.begin(ctx, &t, commits, span)
	}
	if err == nil {
		err = r.agree(ctx, &t)
	}
	if err == nil {
		r.mended("take")
	}
	return t, err
}

// verify looks whether the last record that was read is still what it was: a topic that was deleted and made again
// has others. Of a log that ends before it an earlier one says whether it is the same and was only cut off, as by a
// leader that was not in sync: then what was read of it is not read again.
func (r *reading) verify(ctx context.Context, t *takeover, span kafka.Span) error {
	switch {
	case t.beyond:
		same, other, err := r.find(ctx, t.note.Mark, span)
		if same {
			t.anew += "; it was cut off, what is there was read before"
			t.offset = span.End
		} else if other {
			t.anew += ", and is another"
		}
		return err
	case t.anew != "":
		return nil
	}
	_, other, err := r.find(ctx, t.note.Last, span)
	if other {
		t.anew = fmt.Sprintf("its log is another: the record at %d is not the one that was read", t.note.Last.Offset)
		t.offset = -1
	}
	return err
}

// find looks for a record that was read: whether it is there, or another in its place. One that was deleted is neither.
func (r *reading) find(ctx context.Context, was *seen, span kafka.Span) (same, other bool, err error) {
	if was == nil || was.Offset < span.Start || was.Offset >= span.End {
		return false, false, nil
	}
	reader := r.client.NewReader(r.topic, r.number, was.Offset)
	reader.MaxBytes = 1 // a batch comes whole
	records, err := reader.Fetch(ctx)
	if err != nil || len(records) == 0 || records[0].Offset != was.Offset {
		return false, false, err
	}
	same = seeRecord(&records[0]) == *was
	return same, !same, nil
}

// begin makes a new incarnation, and commits it before anything is read.
func (r *reading) begin(ctx context.Context, t *takeover, commits []kafka.Commit, span kafka.Span) error {
	stored := commits[r.number].Offset >= 0
	offset := min(max(t.offset, span.Start), span.End)
	if t.offset < 0 {
		var err error
		if offset, err = r.start(ctx, commits, span); err != nil {
			return err
		}
	}
	anew := t.anew
	*t = takeover{offset: offset, note: kafkaNote{Incarnation: newID(), Partitions: r.claim.Partitions}}
	if err := r.claim.Commit(ctx, t.note.commit(offset, nil)); err != nil {
		return err
	}
	say := r.logger.Info
	if stored || r.vanished {
		say = r.logger.Error
	}
	say("a partition begins as a new source", "log", r.topicPartition.String(), "why", anew, "from", offset, "source", r.sourceName(t.note.Incarnation))
	r.restart()
	return nil
}

// restart forgets how far the partition had got.
func (r *reading) restart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.vanished = false
	r.member.leave()
	r.member = r.join(r.topicPartition)
}

// start is where a new incarnation begins: where the configuration says, but at the log's beginning when it is known
// to have been made after reading began, or the one that was read is gone.
func (r *reading) start(ctx context.Context, commits []kafka.Commit, span kafka.Span) (int64, error) {
	start := r.config.Kafka.Start
	switch {
	case commits[r.number].Offset >= 0, r.vanished, r.younger(commits):
		return span.Start, nil
	case start.Latest:
		return span.End, nil
	case start.Before > 0:
		return r.client.OffsetAt(ctx, r.topic, r.number, time.Now().Add(-start.Before))
	}
	return span.Start, nil
}

// younger says whether the partition was added to the topic after its group had begun.
func (r *reading) younger(commits []kafka.Commit) bool {
	for _, commit := range commits {
		if note, _, err := readNote(commit); err == nil && note.Partitions <= r.number {
			return true
		}
	}
	return false
}

// agree sees to the outstanding cuts: that they are not older than what is remembered of them, and by what rules they
// are made again.
func (r *reading) agree(ctx context.Context, t *takeover) error {
	retention := r.collector.config.Retention
	for len(t.again) > 0 && retention > 0 {
		c := t.again[0]
		age := time.Since(time.UnixMilli(c.clock))
		if age <= retention*9/10 {
			break
		}
		r.logger.Error("a cut is too old to be sent again: its hits are lost if Kafka does not have it", "log", r.topicPartition.String(),
			"from", c.from, "to", c.to, "age", age.Round(time.Second))
		t.again, t.offset, t.note.Last = t.again[1:], c.to, nil
	}
	if len(t.again) == 0 {
		return nil
	}
	by, err := r.agreeRules(ctx, t.note.Rules)
	t.by = by
	return err
}

// agreeRules waits until the rules of a fingerprint are known, or takes ours in their place.
func (r *reading) agreeRules(ctx context.Context, fingerprint string) (*ruling, error) {
	var began time.Time
	for {
		if by := r.collector.rulingOf(fingerprint); by != nil {
			return by, nil
		}
		ours := r.collector.ruling.Load()
		said := []any{"log", r.topicPartition.String(), "rules", fingerprint, "ours", ours.fingerprint}
		if began.IsZero() {
			began = time.Now()
			r.logger.Warn("cuts that Kafka may not have were made by rules that this collector does not know: waiting for them for 30 s", said...)
		}
		if time.Since(began) >= r.patience {
			r.logger.Error("cuts that Kafka may not have are made again by other rules: where it has them, they are told as conflicts and not counted again", said...)
			return ours, nil
		}
		pause(ctx, lookForRules)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}
