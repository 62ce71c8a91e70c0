package topics

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"weir/internal/sleep"
	"weir/internal/topic"
	"weir/pkg/collector/journal"
	"weir/pkg/collector/pipeline"
)

const (
	lookForRules = 250 * time.Millisecond
	lookAgain    = time.Second
)

var errMadeAgain = errors.New("the topic is being made again")

// An ownership is a partition while the group assigns it to us. One goroutine uses it.
type ownership struct {
	source    *source
	partition *partition
	claim     *topic.Claim
}

// name is the partition's, for the log.
func (o *ownership) name() string { return o.partition.topicPartition.String() }

// sourceName is the source that the batches of an incarnation carry.
func (o *ownership) sourceName(incarnation string) string {
	return fmt.Sprintf("%s/%s/%s", o.partition.topicPartition, o.source.cluster, incarnation)
}

// takeOver determines where to continue. It tries until the context is done.
func (o *ownership) takeOver(ctx context.Context) (takeover, error) {
	for {
		t, err := o.tryTakeOver(ctx)
		if err == nil || ctx.Err() != nil || errors.Is(err, topic.ErrExpelled) {
			return t, err
		}
		o.source.in.TroubleOf(o.partition.topicPartition.String(), "take", fmt.Errorf("taking over %s: %w", o.partition.topicPartition, err))
		sleep.For(ctx, retryEvery)
	}
}

func (o *ownership) tryTakeOver(ctx context.Context) (takeover, error) {
	commits, err := o.source.client.Committed(ctx, o.source.group, o.partition.topic)
	if err != nil {
		return takeover{}, err
	}

	// The other partitions' commits are as new as ours: the group must know them before this one sends.
	o.source.applyCommits(o.partition.topic, commits, nil)
	id, err := o.topicID(ctx)
	if err != nil {
		return takeover{}, err
	}
	span, err := o.source.client.PartitionSpan(ctx, o.partition.topic, o.partition.number)
	if err != nil {
		return takeover{}, err
	}

	t, err := newTakeover(commits[o.partition.number], span)
	if t.beyond { // a new leader may not know yet how far its log goes
		sleep.For(ctx, lookAgain)
		if span, err = o.source.client.PartitionSpan(ctx, o.partition.topic, o.partition.number); err == nil {
			t, err = newTakeover(commits[o.partition.number], span)
		}
	}

	t.same = id != "" && t.note.TopicID == id
	if err == nil {
		err = t.verify(ctx, o.source.client, o.partition.topicPartition, span)
	}
	t.note.TopicID = id
	if err == nil && t.whyNew != "" && t.same { // made again meanwhile, it is another
		if now, failed := o.topicID(ctx); failed != nil || now != id {
			return t, errors.Join(errMadeAgain, failed)
		}
	}
	if err == nil && t.whyNew != "" {
		err = o.begin(ctx, &t, commits, span)
	}
	if err == nil {
		err = o.agree(ctx, &t)
	}
	if err == nil {
		o.source.in.MendedOf(o.partition.topicPartition.String(), "take", "read", "run")
	}

	return t, err
}

// topicID is the id of the topic, or "" where the brokers know none.
func (o *ownership) topicID(ctx context.Context) (string, error) {
	id, err := openReader(o.source.client, o.partition.topicPartition, 0, 1).Identity(ctx)
	return string(id[strings.LastIndexByte(string(id), '/')+1:]), err
}

// verify checks whether the last record that was read is unchanged: a topic that was deleted and made again has other
// records. If the log ends before that record, the topic's id or an earlier record (Mark) shows whether it is the same
// log that was only cut off, as by a leader that was not in sync. Then the records that were read are not read again.
// A log whose records were all written later, as when its disk was lost, has none of those.
func (t *takeover) verify(ctx context.Context, client topic.Log, of topicPartition, span topic.Span) error {
	was := t.note.Last
	switch {
	case t.beyond:
		was = t.note.Mark
	case t.whyNew != "":
		return nil
	}
	same, other, err := find(ctx, client, of, was, span)
	if err == nil && t.same && (other || t.beyond && !same) {
		var renewed bool
		renewed, err = t.renewed(ctx, client, of, span)
		t.same = !renewed
	}

	switch {
	case t.beyond && (same || t.same):
		t.whyNew += "; it was cut off, and its present records were read before"
		t.offset, t.cut = span.End, true
	case t.beyond && other:
		t.whyNew += ", and it is another log"
	case t.beyond:
	case other && t.same:
		t.whyNew = fmt.Sprintf("its log was cut off before %d, and has grown again: what was written there meanwhile may not be read", t.end())
		t.offset, t.cut = t.end(), true
	case other:
		t.whyNew = fmt.Sprintf("its log is another one: the record at %d is not the one that was read", t.note.Last.Offset)
		t.offset = -1
	}
	return err
}

// renewed reports whether the first record was written after the last one that was read.
func (t *takeover) renewed(ctx context.Context, client topic.Log, of topicPartition, span topic.Span) (bool, error) {
	if t.note.At == 0 || span.Start >= span.End {
		return false, nil
	}
	id, at, err := read(ctx, client, of, span.Start)
	return id.Offset >= 0 && at.UnixMilli() > t.note.At, err
}

// find looks for a record that was read. It reports whether the record is there, or another in its place; neither if
// the record was deleted.
func find(ctx context.Context, client topic.Log, of topicPartition, was *recordID, span topic.Span) (same, other bool, err error) {
	if was == nil || was.Offset < span.Start || was.Offset >= span.End {
		return false, false, nil
	}
	id, _, err := read(ctx, client, of, was.Offset)
	if err != nil || id.Offset != was.Offset {
		return false, false, err
	}
	return id == *was, id != *was, nil
}

// read reads one record, the first that is there from an offset on. Without one its offset is -1.
func read(ctx context.Context, client topic.Log, of topicPartition, from int64) (id recordID, at time.Time, err error) {
	reader := openReader(client, of, from, 1) // a batch comes whole
	defer reader.GiveRoom()
	records, err := reader.Fetch(ctx)
	for err == nil && reader.NeedsRoom() && len(records) == 0 {
		if err = reader.MakeRoom(ctx); err == nil {
			records, err = reader.Fetch(ctx)
		}
	}
	if err != nil || len(records) == 0 {
		return recordID{Offset: -1}, time.Time{}, err
	}
	return idOf(&records[0]), records[0].Time, nil
}

// begin makes a new incarnation, and commits it before any record is read.
func (o *ownership) begin(ctx context.Context, t *takeover, commits []topic.Commit, span topic.Span) error {
	stored := commits[o.partition.number].Offset >= 0
	offset := min(max(t.offset, span.Start), span.End)
	if t.offset < 0 {
		var err error
		if offset, err = o.start(ctx, commits, span); err != nil {
			return err
		}
	}

	why, cut := t.whyNew, t.cut
	*t = takeover{offset: offset, note: kafkaNote{Incarnation: journal.NewID(), Partitions: o.claim.Partitions, TopicID: t.note.TopicID}}
	if err := o.claim.Commit(ctx, t.note.commit(offset, nil)); err != nil {
		return err
	}

	say := o.source.in.Logger().Info
	if stored || o.partition.vanished {
		say = o.source.in.Logger().Error
	}

	say("a partition begins as a new source", "log", o.name(), "why", why, "from", offset, "id", o.sourceName(t.note.Incarnation))
	if cut {
		o.source.in.Incident("cut off", fmt.Errorf("%s: %s", o.name(), why))
	}
	warnOfCompaction(ctx, o.source.client, o.partition.topicPartition, o.source.in.Logger())
	o.restart()
	return nil
}

// restart forgets how far the partition had got.
func (o *ownership) restart() {
	o.source.mu.Lock()
	defer o.source.mu.Unlock()
	o.partition.vanished = false
	o.source.compareAgain(o.partition)
}

// start is where a new incarnation begins: at the configured start, or at the beginning of the log if the log was made
// after reading began, or the log that was read is gone.
func (o *ownership) start(ctx context.Context, commits []topic.Commit, span topic.Span) (int64, error) {
	if commits[o.partition.number].Offset >= 0 || o.partition.vanished || o.younger(commits) {
		return span.Start, nil
	}
	return startOf(ctx, o.source.client, o.partition.topicPartition, o.source.config.Start, span, o.source.in.Now())
}

// startOf returns the offset at which a partition begins by the configured start.
func startOf(ctx context.Context, client topic.Log, of topicPartition, start pipeline.Start, span topic.Span, now time.Time) (int64, error) {
	switch {
	case start.Latest:
		return span.End, nil
	case start.Before > 0:
		return client.OffsetAt(ctx, of.topic, of.number, now.Add(-start.Before))
	}
	return span.Start, nil
}

// younger reports whether the partition was added to the topic after its group had begun.
func (o *ownership) younger(commits []topic.Commit) bool {
	for _, commit := range commits {
		if note, _, err := readNote(commit); err == nil && note.Partitions <= o.partition.number {
			return true
		}
	}
	return false
}

// agree prepares the outstanding cuts: it drops those that are too old to be sent again, and waits for the rules that
// made the others.
func (o *ownership) agree(ctx context.Context, t *takeover) error {
	for len(t.again) > 0 {
		c := t.again[0]
		age, is := o.source.in.TooOld(c.Clock)
		if !is {
			break
		}
		o.source.in.Logger().Error("batches are too old to be sent again: their hits are lost if Kafka does not have them", "log", o.name(),
			"from", c.From, "to", c.To, "age", age)
		t.again, t.offset, t.note.Last = t.again[1:], c.To, nil
	}

	if len(t.again) == 0 {
		return nil
	}
	return o.awaitRules(ctx, t.note.Rules)
}

// awaitRules waits until the rules with a fingerprint are known, but not for ever: then ours make the cuts.
func (o *ownership) awaitRules(ctx context.Context, fingerprint string) error {
	var began time.Time
	for {
		ours, known := o.source.in.Rules(fingerprint)
		if known {
			return nil
		}
		args := []any{"log", o.name(), "rules", fingerprint, "ours", ours}
		if began.IsZero() {
			began = o.source.in.Now()
			o.source.in.Logger().Warn("outstanding batches were made by rules that this collector does not know: waiting for these rules for 30 s", args...)
		}

		if o.source.in.Now().Sub(began) >= o.source.patience {
			o.source.in.Logger().Error("outstanding batches are made again by other rules: those that Kafka has already are reported as conflicts and not counted again", args...)
			return nil
		}

		sleep.For(ctx, lookForRules)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}
