package topics

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/internal/kafka"
	"weir/internal/sleep"
	"weir/pkg/collector/journal"
)

const (
	lookForRules = 250 * time.Millisecond
	lookAgain    = time.Second
)

// takeOver determines where to continue. It tries until the context is done.
func (r *partitionReader) takeOver(ctx context.Context) (takeover, error) {
	for {
		t, err := r.tryTakeOver(ctx)
		if err == nil || ctx.Err() != nil || errors.Is(err, kafka.ErrExpelled) {
			return t, err
		}
		r.in.Trouble("take", fmt.Errorf("taking over %s: %w", r.topicPartition, err))
		sleep.For(ctx, retryEvery)
	}
}

func (r *partitionReader) tryTakeOver(ctx context.Context) (takeover, error) {
	commits, err := r.client.Committed(ctx, r.group, r.topic)
	if err != nil {
		return takeover{}, err
	}

	// The other partitions' commits are as new as ours: the group must know them before this one sends.
	r.applyCommits(r.topic, commits, nil)
	span, err := r.client.PartitionSpan(ctx, r.topic, r.number)
	if err != nil {
		return takeover{}, err
	}

	t, err := newTakeover(commits[r.number], span)
	if t.beyond { // a new leader may not know yet how far its log goes
		sleep.For(ctx, lookAgain)
		if span, err = r.client.PartitionSpan(ctx, r.topic, r.number); err == nil {
			t, err = newTakeover(commits[r.number], span)
		}
	}

	if err == nil {
		err = r.verify(ctx, &t, span)
	}
	if err == nil && t.whyNew != "" {
		err = r.begin(ctx, &t, commits, span)
	}
	if err == nil {
		err = r.agree(ctx, &t)
	}
	if err == nil {
		r.in.Mended("take")
	}

	return t, err
}

// verify checks whether the last record that was read is unchanged: a topic that was deleted and made again has other
// records. If the log ends before that record, an earlier record (Mark) shows whether it is the same log that was only
// cut off, as by a leader that was not in sync. Then the records that were read are not read again.
func (r *partitionReader) verify(ctx context.Context, t *takeover, span kafka.Span) error {
	switch {
	case t.beyond:
		same, other, err := r.find(ctx, t.note.Mark, span)
		if same {
			t.whyNew += "; it was cut off, and its present records were read before"
			t.offset = span.End
		} else if other {
			t.whyNew += ", and it is another log"
		}
		return err
	case t.whyNew != "":
		return nil
	}

	_, other, err := r.find(ctx, t.note.Last, span)
	if other {
		t.whyNew = fmt.Sprintf("its log is another one: the record at %d is not the one that was read", t.note.Last.Offset)
		t.offset = -1
	}

	return err
}

// find looks for a record that was read. It reports whether the record is there, or another in its place; neither if
// the record was deleted.
func (r *partitionReader) find(ctx context.Context, was *recordID, span kafka.Span) (same, other bool, err error) {
	if was == nil || was.Offset < span.Start || was.Offset >= span.End {
		return false, false, nil
	}
	reader := r.client.NewReader(r.topic, r.number, was.Offset)
	reader.MaxBytes = 1 // a batch comes whole
	records, err := reader.Fetch(ctx)
	if err != nil || len(records) == 0 || records[0].Offset != was.Offset {
		return false, false, err
	}
	same = idOf(&records[0]) == *was
	return same, !same, nil
}

// begin makes a new incarnation, and commits it before any record is read.
func (r *partitionReader) begin(ctx context.Context, t *takeover, commits []kafka.Commit, span kafka.Span) error {
	stored := commits[r.number].Offset >= 0
	offset := min(max(t.offset, span.Start), span.End)
	if t.offset < 0 {
		var err error
		if offset, err = r.start(ctx, commits, span); err != nil {
			return err
		}
	}

	why := t.whyNew
	*t = takeover{offset: offset, note: kafkaNote{Incarnation: journal.NewID(), Partitions: r.claim.Partitions}}
	if err := r.claim.Commit(ctx, t.note.commit(offset, nil)); err != nil {
		return err
	}

	say := r.in.Logger().Info
	if stored || r.vanished {
		say = r.in.Logger().Error
	}

	say("a partition begins as a new source", "log", r.topicPartition.String(), "why", why, "from", offset, "id", r.sourceName(t.note.Incarnation))
	r.restart()
	return nil
}

// restart forgets how far the partition had got.
func (r *partitionReader) restart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.vanished = false
	r.member.Leave()
	r.member = r.compared(r.topicPartition)
}

// start is where a new incarnation begins: at the configured start, or at the beginning of the log if the log was made
// after reading began, or the log that was read is gone.
func (r *partitionReader) start(ctx context.Context, commits []kafka.Commit, span kafka.Span) (int64, error) {
	start := r.config.Start
	switch {
	case commits[r.number].Offset >= 0, r.vanished, r.younger(commits):
		return span.Start, nil
	case start.Latest:
		return span.End, nil
	case start.Before > 0:
		return r.client.OffsetAt(ctx, r.topic, r.number, r.in.Now().Add(-start.Before))
	}
	return span.Start, nil
}

// younger reports whether the partition was added to the topic after its group had begun.
func (r *partitionReader) younger(commits []kafka.Commit) bool {
	for _, commit := range commits {
		if note, _, err := readNote(commit); err == nil && note.Partitions <= r.number {
			return true
		}
	}
	return false
}

// agree prepares the outstanding cuts: it drops those that are too old to be sent again, and waits for the rules that
// made the others.
func (r *partitionReader) agree(ctx context.Context, t *takeover) error {
	for len(t.again) > 0 {
		c := t.again[0]
		age, is := r.in.TooOld(c.Clock)
		if !is {
			break
		}
		r.in.Logger().Error("batches are too old to be sent again: their hits are lost if Kafka does not have them", "log", r.topicPartition.String(),
			"from", c.From, "to", c.To, "age", age)
		t.again, t.offset, t.note.Last = t.again[1:], c.To, nil
	}

	if len(t.again) == 0 {
		return nil
	}
	return r.awaitRules(ctx, t.note.Rules)
}

// awaitRules waits until the rules with a fingerprint are known, but not for ever: then ours make the cuts.
func (r *partitionReader) awaitRules(ctx context.Context, fingerprint string) error {
	var began time.Time
	for {
		ours, known := r.in.Rules(fingerprint)
		if known {
			return nil
		}
		args := []any{"log", r.topicPartition.String(), "rules", fingerprint, "ours", ours}
		if began.IsZero() {
			began = r.in.Now()
			r.in.Logger().Warn("outstanding batches were made by rules that this collector does not know: waiting for these rules for 30 s", args...)
		}

		if r.in.Now().Sub(began) >= r.patience {
			r.in.Logger().Error("outstanding batches are made again by other rules: those that Kafka has already are reported as conflicts and not counted again", args...)
			return nil
		}

		sleep.For(ctx, lookForRules)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}
