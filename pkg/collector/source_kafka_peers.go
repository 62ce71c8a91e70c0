package collector

import (
	"context"
	"time"

	"weir/internal/kafka"
)

const (
	peersEvery = time.Second
	peersHasty = 5 * time.Millisecond // while we wait for them
)

// follow hears from the group's commits how far the partitions of others have got, and tells the hold.
func (k *kafkaSource) follow(ctx context.Context) {
	for ctx.Err() == nil {
		every := peersEvery
		for _, topic := range k.known() {
			commits, err := k.client.Committed(ctx, k.group, topic)
			k.hear(topic, commits, err)
			if err == nil && k.waiting() {
				every = peersHasty
			}
		}
		k.status() // the gauge
		pause(ctx, every)
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

// waiting says whether a partition of ours waits for others.
func (k *kafkaSource) waiting() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.partitions {
		if p.owned {
			if _, waits := p.member.standing(); waits {
				return true
			}
		}
	}
	return false
}

// hear takes what is committed of a topic. While nothing can be heard nobody is taken to have stopped.
func (k *kafkaSource) hear(topic string, commits []kafka.Commit, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		for _, p := range k.partitions {
			if p.topic == topic && !p.owned {
				p.member.wait(true)
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
	p.incarnation = note.Incarnation
	if p.heard != commit.Metadata {
		p.heard, p.changed = commit.Metadata, time.Now()
	}
	p.member.wait(note.Waits > 0 && time.Since(p.changed) < stallAfter)
	p.member.report(note.reached(), !note.End)
}
