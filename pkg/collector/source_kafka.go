package collector

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"weir/internal/kafka"
	"weir/internal/sleep"
	"weir/pkg/collector/pace"
)

const (
	retryEvery  = 500 * time.Millisecond
	topicsEvery = time.Second
	goneLooks   = 10 // after so many looks in a row without the topic it is no longer read
)

// A kafkaSource reads topics as a member of a group: each partition has one owner among all collectors, and a stream
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
type kafkaSource struct {
	*intake
	client   *kafka.Client
	group    string
	cluster  string
	patience time.Duration // how long to wait for unknown rules

	mu         sync.Mutex
	partitions map[topicPartition]*partition
	finding    *pace.Member // others wait for it until it has found its partitions
	asked      bool         // the cluster is known, and all topics were found
	placed     bool         // we have a place in the group
	lost       time.Time    // when we lost it; zero before we had one
}

type topicPartition struct {
	topic  string
	number int
}

// A partition is the state of one, whether this source owns it or not. kafkaSource.mu guards it.
type partition struct {
	topicPartition
	member      *pace.Member
	owned       bool
	vanished    bool   // its topic was missing: all its records will be new when it is back
	incarnation string // the last one that was committed
	metadata    string // of the last commit
	offset      int64  // up to which it is read
	changed     time.Time
}

func newKafkaSource(in *intake) (source, error) {
	config := in.config.Kafka
	if config.Group == "" || len(config.Topics) == 0 {
		return nil, errors.New("a group and topics are needed")
	}
	return &kafkaSource{intake: in, client: config.Client, group: config.Group, patience: awaitRules, partitions: map[topicPartition]*partition{}}, nil
}

// announce makes others wait for the source's partitions until it has found them: their requests may be older.
func (k *kafkaSource) announce() { k.finding = k.join(k.config.Name) }

func (k *kafkaSource) status() SourceStatus {
	status := k.intake.status("kafka")
	lag := int64(0)
	for _, log := range status.Logs {
		lag += log.Lag
	}

	k.mu.Lock()
	defer k.mu.Unlock()
	status.CaughtUp = status.CaughtUp && k.asked && !k.outside()
	if k.outside() {
		k.pipeline.metrics.lagCount.DeleteLabelValues(k.config.Name)
	} else {
		k.pipeline.metrics.lagCount.WithLabelValues(k.config.Name).Set(float64(lag))
	}
	return status
}

// run is a member of the group until the context is done.
func (k *kafkaSource) run(ctx context.Context) error {
	defer k.leave()
	defer k.finding.Leave()
	cluster, err := k.connect(ctx)
	if err != nil {
		return nil // the context is done
	}

	k.cluster = cluster
	var following sync.WaitGroup
	defer following.Wait()
	following.Go(func() {
		_ = k.outlive(ctx, "comparing the partitions", func() error { k.follow(ctx); return nil }, func() error { return nil })
	})

	for ctx.Err() == nil {
		topics := k.present(ctx)
		if len(topics) == 0 {
			sleep.For(ctx, topicsEvery)
			continue
		}
		if err := k.share(ctx, topics); err != nil {
			return err
		}
	}

	return nil
}

func (k *kafkaSource) connect(ctx context.Context) (id string, err error) {
	for {
		cluster, err := k.client.Cluster(ctx)
		if err == nil {
			k.mended("connect")
			return cluster.ID, nil
		}
		if ctx.Err() != nil {
			return "", err
		}
		k.trouble("connect", err)
		sleep.For(ctx, retryEvery)
	}
}

// present returns the topics that exist, and reports the missing ones. Their partitions take part in the comparison
// from now on, whichever collector will own them.
func (k *kafkaSource) present(ctx context.Context) map[string]int {
	topics := map[string]int{}
	var faults []error
	found := true
	for _, topic := range k.config.Kafka.Topics {
		count, err := k.client.Partitions(ctx, topic)
		if err != nil {
			faults = append(faults, err)
			found = found && errors.Is(err, kafka.ErrNoTopic)
			continue
		}
		topics[topic] = 0
		k.compare(topic, count)
	}

	if ctx.Err() != nil {
		return nil
	}
	if err := errors.Join(faults...); err != nil {
		k.trouble("topics", oneLine(err))
	} else {
		k.mended("topics")
	}

	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked = len(faults) == 0
	if found {
		k.finding.Leave()
	}

	return topics
}

// compare adds all partitions of a topic to the comparison.
func (k *kafkaSource) compare(topic string, count int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for number := range count {
		k.partition(topic, number)
	}
}

func oneLine(err error) error {
	return errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
}

// share reads the partitions that the group assigns to us, until the topics change or the context is done.
func (k *kafkaSource) share(ctx context.Context, topics map[string]int) error {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() {
		defer cancel()
		k.isolated("looking for topics", func() { k.watchTopics(ctx, topics) })
	})

	group := kafka.Group{Name: k.group, Topics: topics, Session: k.config.Kafka.Session, Place: k.place}
	if err := k.client.RunGroup(ctx, group, k.own); err != nil {
		return fmt.Errorf("source %s: %w", k.config.Name, err)
	}
	return nil
}

// watchTopics returns when a missing topic exists, or a topic has been gone for goneLooks looks.
func (k *kafkaSource) watchTopics(ctx context.Context, topics map[string]int) {
	missing := map[string]int{} // looks in a row
	for {
		sleep.For(ctx, topicsEvery)
		if ctx.Err() != nil {
			return
		}

		for _, topic := range k.config.Kafka.Topics {
			_, err := k.client.Partitions(ctx, topic)
			_, read := topics[topic]
			switch {
			case err == nil && !read:
				return
			case errors.Is(err, kafka.ErrNoTopic):
				k.trouble("topics", err)
				k.vanish(topic)
				missing[topic]++
			default:
				delete(missing, topic)
			}

			if read && missing[topic] >= goneLooks {
				return
			}
		}
	}
}

// place notes whether we have a place in the group.
func (k *kafkaSource) place(has bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.placed = has
	if !has {
		k.lost = k.now()
	}
}

// placePatience is for how long there may be no place in the group: whenever collectors come or go there is none.
const placePatience = 5 * time.Second

// outside says that we have no place in the group, as when Kafka is away. Then nobody knows how many records wait.
// k.mu is held.
func (k *kafkaSource) outside() bool {
	return !k.placed && (k.lost.IsZero() || k.now().Sub(k.lost) >= placePatience)
}

// vanish notes that a topic was missing.
func (k *kafkaSource) vanish(topic string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.partitions {
		if p.topic == topic {
			p.vanished = true
		}
	}
}

// leave ends all comparisons.
func (k *kafkaSource) leave() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.partitions {
		p.member.Leave()
	}
	clear(k.partitions)
}

// partition returns the state of a partition; the first call adds it to the comparison. k.mu is held.
func (k *kafkaSource) partition(topic string, number int) *partition {
	at := topicPartition{topic, number}
	p := k.partitions[at]
	if p == nil {
		p = &partition{topicPartition: at, changed: k.now()}
		p.member = k.compared(at)
		k.partitions[at] = p
	}
	return p
}

func (k *kafkaSource) compared(at topicPartition) *pace.Member {
	return k.pipeline.group.Share(at.String(), k.late())
}

func (at topicPartition) String() string { return fmt.Sprintf("%s/%d", at.topic, at.number) }

// own reads a partition as long as it is ours.
func (k *kafkaSource) own(ctx context.Context, claim *kafka.Claim) error {
	p := k.possess(claim.Topic, claim.Partition)
	defer k.dispossess(p)
	for ctx.Err() == nil {
		err := k.outlive(ctx, p.topicPartition.String(), func() error {
			r := &partitionReader{kafkaSource: k, partition: p, claim: claim}
			return r.run(ctx)
		}, func() error { return nil })

		switch {
		case errors.Is(err, kafka.ErrExpelled):
			k.logger.Info("lost a partition: records that no commit contains are dropped here, and its next owner reads them", "log", p.topicPartition.String(), "why", err)
			return nil
		case ctx.Err() != nil, errors.Is(err, kafka.ErrClosed):
			return nil
		case errors.Is(err, errTakeOver):
		case errors.Is(err, kafka.ErrPermanent):
			return err
		default:
			k.trouble("read", err)
			sleep.For(ctx, retryEvery)
		}
	}

	return nil
}

// possess makes a partition ours. dispossess releases it; from then on the commits of its next owner are read.
func (k *kafkaSource) possess(topic string, number int) *partition {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.partition(topic, number)
	p.owned = true
	p.member.Wait(false)
	p.member.Idle(false)
	return p
}

func (k *kafkaSource) dispossess(p *partition) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p.owned = false
	p.changed = k.now()
}
