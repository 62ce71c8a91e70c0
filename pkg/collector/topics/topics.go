// Package topics is the source of topics, in two forms.
//
// As a member of a group: the group's commit is the journal of each partition. It has the position and the batch
// boundaries that Kafka may not have, so that the partition's next owner continues where this one ended, whichever process
// that is.
//
// Alone: one collector reads all partitions and keeps its positions in its own journal, as those of files. It writes
// nothing to the Kafka that it reads.
//
// The package knows partitions, offsets and commits. It does not know what a record says.
package topics

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"weir/internal/topic"
	"weir/pkg/collector/pace"
	"weir/pkg/collector/pipeline"
)

const (
	awaitRules  = 30 * time.Second
	retryEvery  = 500 * time.Millisecond
	topicsEvery = time.Second
	goneLooks   = 10 // after so many looks in a row without the topic it is no longer read
)

// A Config names topics, and the group that reads them. Without a group the Client is one of Kafka.
type Config struct {
	Client topic.Log
	Group  string   // the complete name; empty for a source without a group
	Topics []string // names and patterns
	// Without are topics that no pattern stands for: Weir's own.
	Without []string
	Start   pipeline.Start
	// Headers are those of records that have the values of the intake's outer fields, in their order.
	Headers []string
	// Session is the time without a heartbeat after which the group takes a member's partitions away; 0 is
	// topic.Group's.
	Session time.Duration
}

// A source reads topics as a member of a group: each partition has one owner among all collectors, and a stream
// there. The group's commit contains the identity of a partition, the position, and the cuts that Kafka may not have
// (commitJournal). So the next owner of a partition makes the outstanding cuts again and continues. An owner that has
// to give up a partition waits for a while for the cuts in flight.
//
// Outstanding cuts are made again by the rules that made them, which are found by their fingerprint: our present
// rules, or those stored in the folder. A commit has no room for rules, so they may be known only to a process
// elsewhere that died while rules were being changed. Then the source waits up to 30 s for these rules to become ours
// too. If they do not come, it makes the cuts by our own rules, from the same offsets to the same offsets. A partition
// of the sink that already has such a cut refuses this one, as a conflict, and a partition that does not have it
// counts it. So in each of them every request is still counted once, by the old or by the new rules.
//
// A topic that is missing, or was for ten looks, is left out and the others are read; the source looks for it every
// second.
type source struct {
	in       *pipeline.Intake
	config   Config
	names    *names
	looked   bool // for topics, with success; of the goroutine that looks
	client   topic.Log
	group    string
	cluster  string
	patience time.Duration // how long to wait for unknown rules
	sparse   int           // records of all partitions in a slack, see sparseRecords

	mu         sync.Mutex
	partitions map[topicPartition]*partition
	finding    *pace.Member // others wait for it until it has found its partitions
	asked      bool         // the cluster is known, and all topics were found
	placed     bool         // we have a place in the group
	lost       time.Time    // when we lost it; zero before we had one
	alone      aloneness
}

type topicPartition struct {
	topic  string
	number int
}

// A partition is the state of one, whether this source owns it or not. source.mu guards it.
type partition struct {
	topicPartition
	member      *pace.Member
	owned       bool
	vanished    bool   // its topic was missing: all its records will be new when it is back
	incarnation string // the last one that was committed
	metadata    string // of the last commit
	offset      int64  // up to which it is read
	changed     time.Time
	density     density // since it is ours
}

// New makes a source. Its client knows the topics.
func New(in *pipeline.Intake, config Config) (pipeline.Source, error) {
	if config.Group == "" || len(config.Topics) == 0 {
		return nil, errors.New("a group and topics are needed")
	}
	return &source{in: in, config: config, names: newNames(in, &config), client: config.Client, group: config.Group, patience: awaitRules, sparse: sparseRecords, partitions: map[topicPartition]*partition{}}, nil
}

// Announce makes others wait for the source's partitions until it has found them: their requests may be older.
func (k *source) Announce() { k.finding = k.in.Join(k.in.Name()) }

func (k *source) Status() pipeline.SourceStatus {
	status := k.in.Status("kafka")
	lag := int64(0)
	for _, log := range status.Logs {
		lag += log.Lag
	}

	k.mu.Lock()
	defer k.mu.Unlock()
	status.CaughtUp = status.CaughtUp && k.asked && !k.outside()
	k.in.SetLagRecords(lag, !k.outside())
	return status
}

// compare adds all partitions of a topic to the comparison.
func (k *source) compare(topic string, count int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for number := range count {
		k.partition(topic, number)
	}
}

// forget forgets partitions that are gone, unless they are read at the moment.
func (k *source) forget(gone func(at topicPartition) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for at, p := range k.partitions {
		if gone(at) && !p.owned {
			k.in.MendedOf(at.String(), "take", "read", "run")
			p.member.Leave()
			delete(k.partitions, at)
		}
	}
}

// compareNew is compare for a topic that was made since the source has begun: all records of partitions that are not known
// yet are new.
func (k *source) compareNew(topic string, count int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for number := range count {
		if k.partitions[topicPartition{topic, number}] == nil {
			k.partition(topic, number).vanished = true
		}
	}
}

// place notes whether we have a place in the group.
func (k *source) place(has bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.placed = has
	if !has {
		k.lost = k.in.Now()
	}
}

// placePatience is for how long there may be no place in the group: whenever collectors come or go there is none.
const placePatience = 5 * time.Second

// outside says that we have no place in the group, as when Kafka is away. Then the number of records that wait is not known.
// k.mu is held.
func (k *source) outside() bool {
	return !k.placed && (k.lost.IsZero() || k.in.Now().Sub(k.lost) >= placePatience)
}

// vanish notes that a topic was missing.
func (k *source) vanish(topic string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.partitions {
		if p.topic == topic {
			p.vanished = true
		}
	}
}

// leave ends all comparisons.
func (k *source) leave() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.partitions {
		p.member.Leave()
	}
	clear(k.partitions)
}

// partition returns the state of a partition; the first call adds it to the comparison. k.mu is held.
func (k *source) partition(topic string, number int) *partition {
	at := topicPartition{topic, number}
	p := k.partitions[at]
	if p == nil {
		p = &partition{topicPartition: at, changed: k.in.Now()}
		p.member = k.compared(at)
		k.partitions[at] = p
	}
	return p
}

func (k *source) compared(at topicPartition) *pace.Member {
	return k.in.Share(at.String())
}

// compareAgain forgets how far a partition has got. The other logs wait for it all the time: it joins before it leaves.
func (k *source) compareAgain(p *partition) {
	before := p.member
	p.member = k.compared(p.topicPartition)
	before.Leave()
}

func (at topicPartition) String() string { return fmt.Sprintf("%s/%d", at.topic, at.number) }

// possess makes a partition ours. dispossess releases it; from then on the commits of its next owner are read.
func (k *source) possess(topic string, number int) *partition {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.partition(topic, number)
	p.owned, p.density = true, density{}
	p.member.Wait(false)
	p.member.Idle(false)
	return p
}

func (k *source) dispossess(p *partition) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p.owned = false
	p.changed = k.in.Now()
}
