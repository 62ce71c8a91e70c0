package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/internal/topic"
)

const (
	maxBatchRecords = 100       // a compacted batch's hole is read offset by offset
	maxBatchBytes   = 1_000_000 // brokers refuse batches over 1,048,588 bytes
	maxRequestBytes = 4 << 20   // of all batches in a request
	leadersGoodFor  = 100 * time.Millisecond
)

// A dispatcher is a producer's one goroutine: it decides when to send what, and answers the messages. Each request runs
// in a goroutine that the dispatcher waits for.
type dispatcher struct {
	*Producer
	lanes    []lane // by partition
	first    int    // the lane to start with, so that none starves
	answers  chan *request
	underWay int
	busy     map[int]bool // brokers with a shared request under way
	leaders  []int        // by partition, -1 for none
	there    int          // how many partitions the topic has
	asked    time.Time    // when leaders was fetched
	trouble  trouble      // with fetching the leaders
	pausing  time.Time    // until then nothing is sent
}

// A lane is the sending state of one partition.
type lane struct {
	underWay   bool
	maxRecords int
	maxBytes   int
	trouble    trouble
	pausing    time.Time // until then nothing is sent again
}

// A request carries batches of several partitions to one broker, or a single batch of a partition that failed before.
type request struct {
	leader  int
	alone   bool
	batches []batch
	err     error         // of the complete request
	pause   time.Duration // requested by the broker
}

type batch struct {
	partition int
	messages  []topic.Message // the first of the partition's queue
	base      int64
	err       error
}

func newDispatcher(p *Producer) *dispatcher {
	d := &dispatcher{Producer: p, lanes: make([]lane, p.config.Partitions), answers: make(chan *request), busy: map[int]bool{}}
	for i := range d.lanes {
		d.lanes[i] = lane{maxRecords: maxBatchRecords, maxBytes: maxBatchBytes}
	}
	return d
}

// run sends until everything is sent after Close, or until the context is done, because Close has stopped waiting.
func (d *dispatcher) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		// After Close has stopped waiting nothing new is sent, but every request that is under way has to answer its
		// messages.
		wait := time.Duration(-1)
		if ctx.Err() == nil {
			wait = d.launch(ctx, time.Now())
		}
		if d.underWay == 0 && (ctx.Err() != nil || d.drained()) {
			return
		}

		timer.Stop()
		if wait >= 0 {
			timer.Reset(wait)
		}

		select {
		case <-d.wake:
		case <-timer.C:
		case answer := <-d.answers:
			d.settle(ctx, answer, time.Now())
		case <-abandoned(ctx):
		}
	}
}

// abandoned fires once when Close stops waiting; after that run waits only for answers.
func abandoned(ctx context.Context) <-chan struct{} {
	if ctx.Err() != nil {
		return nil
	}
	return ctx.Done()
}

func (d *dispatcher) drained() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		return false
	}
	for _, queue := range d.queues {
		if len(queue) > 0 {
			return false
		}
	}
	return true
}

// launch sends everything that can be sent, and returns when it should be called again; below zero means not by time.
func (d *dispatcher) launch(ctx context.Context, now time.Time) time.Duration {
	ready, wait := d.ready(now)
	if len(ready) == 0 {
		return wait
	}
	if pause := d.refresh(ctx, now); pause > 0 {
		return pause
	}

	requests := map[int]*request{} // by leader
	for _, partition := range ready {
		leader := d.leaders[partition]
		switch {
		case partition >= d.there:
			d.failed(partition, now, topic.Errorf(topic.ErrNoLeader, "the topic has %d partitions and not %d: make it again", d.there, len(d.lanes)))
			wait = firstPause
		case leader < 0:
			d.failed(partition, now, topic.Errorf(topic.ErrNoLeader, "the partition has no leader at the moment"))
			wait = firstPause
		// A partition that failed is sent alone, so that it cannot fail the others of its broker again.
		case d.lanes[partition].trouble.times > 0:
			d.start(ctx, &request{leader: leader, alone: true, batches: []batch{d.nextBatch(partition)}})
		// One shared request at a time for each broker: messages that come meanwhile go into the next, so batches are
		// larger under load.
		case d.busy[leader]:
		case requests[leader] == nil:
			requests[leader] = &request{leader: leader, batches: []batch{d.nextBatch(partition)}}
		case requests[leader].size() < maxRequestBytes:
			requests[leader].batches = append(requests[leader].batches, d.nextBatch(partition))
		}
	}

	for _, r := range requests {
		d.busy[r.leader] = true
		d.start(ctx, r)
	}

	d.first = (d.first + 1) % len(d.lanes)
	return wait
}

// ready returns the partitions with something to send and nothing under way, and when the next pause among them ends.
func (d *dispatcher) ready(now time.Time) (partitions []int, wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	wait = -1
	for i := range d.lanes {
		partition := (d.first + i) % len(d.lanes)
		lane := &d.lanes[partition]
		if lane.underWay || len(d.queues[partition]) == 0 {
			continue
		}

		pause := max(lane.pausing.Sub(now), d.pausing.Sub(now))
		if pause <= 0 {
			partitions = append(partitions, partition)
		} else if wait < 0 || pause < wait {
			wait = pause
		}
	}

	return partitions, wait
}

// refresh fetches the leaders of the partitions from kafka-go's metadata. When that fails it returns how long to pause.
func (d *dispatcher) refresh(ctx context.Context, now time.Time) time.Duration {
	if d.leaders != nil && now.Sub(d.asked) < leadersGoodFor {
		return 0
	}
	found, err := d.client.topic(ctx, d.config.Topic)
	if err != nil {
		if ctx.Err() == nil {
			d.noteFault(fmt.Errorf("producing: %w", err))
		}
		d.pausing = now.Add(d.trouble.another(now))
		return d.pausing.Sub(now)
	}

	if d.trouble.times > 0 {
		d.client.errorLog.over("produce", "the brokers answer", d.trouble.since)
	}
	d.trouble, d.asked = trouble{}, now

	// All of them again, so that a partition that has lost its leader has none here either.
	d.leaders, d.there = slices.Repeat([]int{-1}, len(d.lanes)), len(found.Partitions)
	for _, partition := range found.Partitions {
		if partition.ID < len(d.leaders) && partition.Leader.Host != "" { // a partition without a leader names no broker
			d.leaders[partition.ID] = partition.Leader.ID
		}
	}

	return 0
}

// nextBatch returns the messages that a partition may send now, at least one.
func (d *dispatcher) nextBatch(partition int) batch {
	d.mu.Lock()
	defer d.mu.Unlock()
	lane, queue := &d.lanes[partition], d.queues[partition]
	lane.underWay = true
	count, size := 0, 0
	for count < len(queue) && count < lane.maxRecords {
		size += queue[count].Size()
		// The first message goes even if it is larger: only the broker knows whether it is too large.
		if count > 0 && size > lane.maxBytes {
			break
		}
		count++
	}

	return batch{partition: partition, messages: queue[:count:count]}
}

func (b *batch) size() int {
	size := 0
	for i := range b.messages {
		size += b.messages[i].Size()
	}
	return size
}

func (r *request) size() int {
	size := 0
	for i := range r.batches {
		size += r.batches[i].size()
	}
	return size
}

func (d *dispatcher) start(ctx context.Context, r *request) {
	d.underWay++
	go func() {
		d.client.produce(ctx, d.config.Topic, r)
		d.answers <- r
	}()
}

// settle passes a request's answer on to its messages.
func (d *dispatcher) settle(ctx context.Context, r *request, now time.Time) {
	d.underWay--
	if !r.alone {
		delete(d.busy, r.leader)
	}
	if r.pause > 0 {
		d.pausing = now.Add(r.pause)
	}

	for i := range r.batches {
		b := &r.batches[i]
		lane := &d.lanes[b.partition]
		lane.underWay = false
		err := r.err
		if err == nil {
			err = b.err
		}

		// An error that is not permanent leaves the messages in the queue: the next batch begins with the same ones, so
		// the order stays.
		switch {
		case err == nil:
			d.written(b, lane)
		case errors.Is(err, topic.ErrPermanent):
			d.refused(b, lane, now, err)
		case ctx.Err() == nil:
			d.failed(b.partition, now, err)
		}
	}
}

func (d *dispatcher) written(b *batch, lane *lane) {
	if lane.trouble.times > 0 {
		d.client.errorLog.over("produce", fmt.Sprintf("%s/%d can be written", d.config.Topic, b.partition), lane.trouble.since)
	}
	if lane.trouble.times > 0 {
		lane.maxBytes = maxBatchBytes // the topic's limit may be higher now
	}
	lane.trouble = trouble{}
	lane.maxRecords = min(2*lane.maxRecords, maxBatchRecords)
	done(b.messages, b.base, nil)
	d.release(b.partition, b.messages)
}

// refused halves a batch that a broker refuses, until the one refused message is found. A message waits if the topic's
// settings refuse it: it is larger than max.message.bytes, but not than Kafka's default, or it is no record for the
// topic's cleanup.policy.
func (d *dispatcher) refused(b *batch, lane *lane, now time.Time, err error) {
	switch {
	case len(b.messages) == 1 && errors.Is(err, topic.ErrTooLarge) && b.size() <= maxBatchBytes:
		d.failed(b.partition, now, topic.Errorf(topic.ErrTooLarge, "the topic takes no record of %d bytes; raise its max.message.bytes, and the brokers' message.max.bytes, to 1048588", b.size()))
	case len(b.messages) == 1 && errors.Is(err, topic.ErrInvalid):
		d.failed(b.partition, now, fmt.Errorf("the topic's settings refuse the record, so it waits: %w", err))
	case len(b.messages) == 1:
		err = fmt.Errorf("producing to %s/%d: %w", d.config.Topic, b.partition, err)
		d.client.errorLog.note("produce", err)
		done(b.messages, 0, err)
		d.release(b.partition, b.messages)
	case errors.Is(err, topic.ErrTooLarge):
		lane.maxBytes = max(b.size()/2, 1)
	default:
		lane.maxRecords = len(b.messages) / 2
	}
}

func (d *dispatcher) failed(partition int, now time.Time, err error) {
	d.noteFault(fmt.Errorf("producing to %s/%d: %w", d.config.Topic, partition, err))
	lane := &d.lanes[partition]
	lane.pausing = now.Add(lane.trouble.another(now))
}
