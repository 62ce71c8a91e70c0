package collector

import (
	"context"
	"errors"
	"time"

	"weir/internal/kafka"
)

const (
	peersEvery = time.Second
	peersHasty = 5 * time.Millisecond  // while we wait for them
	looksEvery = 50 * time.Millisecond // at least between looks at what is to be read
)

// follow tells the hold what is to be known of partitions: from the group's commits how far those of others have got,
// and from the log, where one waits to hear that, which have nothing to read.
func (k *kafkaSource) follow(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	doubts := k.collector.hold.doubts()
	for ctx.Err() == nil {
		every := peersEvery
		for _, topic := range k.known() {
			commits, err := k.client.Committed(ctx, k.group, topic)
			k.hear(topic, commits, err)
			if err == nil && k.behind() {
				every = peersHasty
			}
		}

		k.status() // the gauge
		timer.Reset(every)
		select {
		case <-doubts:
			doubts = k.collector.hold.doubts() // before we look: who doubts meanwhile is looked for again
			k.look(ctx)
			pause(ctx, looksEvery)
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// known are the topics of which a partition is.
func (k *kafkaSource) known() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var topics []string
	for _, topic := range k.config.Kafka.Topics {
		if k.partitions[topicPartition{topic, 0}] != nil {
			topics = append(topics, topic)
		}
	}
	return topics
}

// behind says whether a partition of ours is read from behind, and may be held by one that is not ours.
func (k *kafkaSource) behind() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	behind, others := false, false
	for _, p := range k.partitions {
		if !p.owned {
			others = true
		} else if p.member.behind() {
			behind = true
		}
	}
	return behind && others
}

// hear takes what is committed of a topic. While nothing can be heard nobody is taken to have stopped, but where the
// topic is gone.
func (k *kafkaSource) hear(topic string, commits []kafka.Commit, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		for _, p := range k.partitions {
			if p.topic == topic && !p.owned {
				p.member.wait(!errors.Is(err, kafka.ErrNoTopic))
			}
		}
		return
	}

	for number, commit := range commits {
		if p := k.partition(topic, number); !p.owned {
			k.hearOf(p, commit)
		}
	}
}

func (k *kafkaSource) hearOf(p *partition, commit kafka.Commit) {
	note, _, err := readNote(commit)
	if commit.Offset < 0 || err != nil {
		p.member.wait(false) // its owner has not begun yet
		return
	}

	if p.incarnation != "" && p.incarnation != note.Incarnation {
		p.member.leave()
		p.member = k.join(p.topicPartition)
	}

	p.incarnation, p.offset = note.Incarnation, commit.Offset
	if p.heard != commit.Metadata {
		p.heard, p.changed = commit.Metadata, time.Now()
	}

	p.member.wait(note.Waits > 0 && time.Since(p.changed) < stallAfter)
	p.member.report(note.reached(), !note.End)
}

// look asks for the ends of all partitions, and tells the hold which are read up to there.
func (k *kafkaSource) look(ctx context.Context) {
	for _, topic := range k.known() {
		at := time.Now()
		spans, err := k.client.Offsets(ctx, topic)
		if err != nil {
			continue // nothing is known then
		}

		k.mu.Lock()
		for number, span := range spans {
			if p := k.partition(topic, number); p.offset >= span.End {
				p.member.wasEmpty(at)
			}
		}
		k.mu.Unlock()
	}
}

// passed notes how far a partition of ours is read.
func (k *kafkaSource) passed(p *partition, offset int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p.offset = offset
}
