package topics

import (
	"context"
	"errors"
	"time"

	"weir/internal/sleep"
	"weir/internal/topic"
	"weir/pkg/collector/pace"
)

const (
	peersEvery = time.Second
	peersHasty = 5 * time.Millisecond  // while we wait for them
	looksEvery = 50 * time.Millisecond // at least between looks at what is to be read
)

// follow informs the group about the partitions: from the group's commits, how far the partitions of others have got,
// and from the log, which partitions have nothing to read if a member waits for that.
func (k *source) follow(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	doubts := k.in.Doubts()
	for ctx.Err() == nil {
		every := peersEvery
		for _, name := range k.known() {
			commits, err := k.client.Committed(ctx, k.group, name)
			k.applyCommits(name, commits, err)
			if err == nil && k.behind() {
				every = peersHasty
			}
		}

		k.Status() // the gauge
		timer.Reset(every)
		select {
		case <-doubts:
			doubts = k.in.Doubts() // before the look: a later doubt needs another look
			k.look(ctx)
			sleep.For(ctx, looksEvery)
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// known returns the topics with a known partition.
func (k *source) known() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var topics []string
	for _, name := range k.names.all() {
		if k.partitions[topicPartition{name, 0}] != nil {
			topics = append(topics, name)
		}
	}
	return topics
}

// behind reports whether a partition of ours reads a backlog, or a log of another source waits, and a partition of
// another collector may hold it.
func (k *source) behind() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	behind, others, othersBehind := false, false, false
	for _, p := range k.partitions {
		if !p.owned {
			others, othersBehind = true, othersBehind || p.member.Behind()
		} else if p.member.Behind() {
			behind = true
		}
	}
	return behind && others || othersBehind && k.in.AnyWaits()
}

// applyCommits applies the commits of a topic. While the commits cannot be read, no partition counts as stalled,
// unless the topic is gone.
func (k *source) applyCommits(name string, commits []topic.Commit, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		for _, p := range k.partitions {
			if p.topic == name && !p.owned {
				p.member.Wait(!errors.Is(err, topic.ErrNoTopic))
			}
		}
		return
	}

	for number, commit := range commits {
		if p := k.partition(name, number); !p.owned {
			k.applyCommit(p, commit)
		}
	}
}

func (k *source) applyCommit(p *partition, commit topic.Commit) {
	note, _, err := readNote(commit)
	if commit.Offset < 0 || err != nil {
		p.member.Wait(false) // its owner has not begun yet
		return
	}

	if p.incarnation != "" && p.incarnation != note.Incarnation {
		k.compareAgain(p)
	}

	p.incarnation, p.offset = note.Incarnation, commit.Offset
	if p.metadata != commit.Metadata {
		p.metadata, p.changed = commit.Metadata, k.in.Now()
	}

	p.member.Wait(note.Waits > 0 && k.in.Now().Sub(p.changed) < pace.StallAfter)
	p.member.Report(note.reached(), !note.End)
}

// look asks for the ends of all partitions, and informs the group which are read up to there.
func (k *source) look(ctx context.Context) {
	for _, name := range k.known() {
		at := k.in.Now()
		spans, err := k.client.Offsets(ctx, name)
		if err != nil {
			continue // nothing is known then
		}

		k.mu.Lock()
		for number, span := range spans {
			if p := k.partition(name, number); p.offset >= span.End {
				p.member.WasEmpty(at)
			}
		}
		k.mu.Unlock()
	}
}

// passed notes how far a partition of ours is read.
func (k *source) passed(p *partition, offset int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p.offset = offset
}
