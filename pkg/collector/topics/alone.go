package topics

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/kafka"
	"weir/internal/sleep"
	"weir/internal/topic"
	"weir/pkg/collector/pace"
	"weir/pkg/collector/pipeline"
)

// An alone reads all partitions of its topics without a group, and writes nothing to their Kafka: how far they are read
// is in the collector's journal, as with files.
//
// A partition is known by the id of its topic. One whose topic has another id begins again as a new log; so does one that
// ends before what was read of it. Partitions that come later are read from their first record.
type alone struct {
	in     *pipeline.Intake
	config Config
	names  *names
	looked bool // for topics, with success; of the goroutine that looks
	client *kafka.Client
	logs   *Logs
	topics map[string]*aloneTopic

	mu         sync.Mutex
	partitions map[topicPartition]*alonePartition
	finding    *pace.Member // others wait for it until it has found its partitions
	asked      bool         // all topics were found when last looked for
}

// An aloneTopic is a topic and its identity, as it was last asked for.
type aloneTopic struct {
	name    string
	missing atomic.Int32 // looks in a row
	found   bool         // once; of the goroutine that looks

	mu sync.Mutex
	id topic.Identity
	at time.Time
}

// An alonePartition is the state of a partition. alone.mu guards it, except for the fields that do not change.
type alonePartition struct {
	topicPartition
	later  bool         // it came after its topic was first looked for
	member *pace.Member // changes when the partition begins again
	offset int64        // up to which it is read; -1 before that is known
	end    int64        // of its records
	seen   time.Time    // when end was known last

	stop  context.CancelFunc // ends its reading
	ended chan struct{}      // closed then
}

const (
	identifyEvery = 10 * time.Second // topics are asked for their ids, also without a doubt
	unseenAfter   = 2 * time.Second  // the end of a partition is asked for
	unknownAfter  = 5 * time.Second  // then the number of records that wait is not known
)

// NewAlone makes a source without a group. Its client knows the topics.
func NewAlone(in *pipeline.Intake, logs *Logs, config Config) (pipeline.Source, error) {
	if len(config.Topics) == 0 {
		return nil, errors.New("topics are needed")
	}
	client, ok := config.Client.(*kafka.Client)
	if !ok {
		return nil, errors.New("a source without a group reads Kafka only")
	}
	return &alone{in: in, config: config, names: newNames(in, &config), client: client, logs: logs, topics: map[string]*aloneTopic{}, partitions: map[topicPartition]*alonePartition{}}, nil
}

// Announce makes others wait for the source's partitions until it has found them: their requests may be older.
func (k *alone) Announce() { k.finding = k.in.Join(k.in.Name()) }

func (k *alone) Status() pipeline.SourceStatus {
	status := k.in.Status("kafka")
	k.mu.Lock()
	defer k.mu.Unlock()
	lag, known := int64(0), k.asked
	for _, p := range k.partitions {
		known = known && p.offset >= 0 && k.in.Now().Sub(p.seen) < unknownAfter
		waits := max(0, p.end-max(0, p.offset))
		lag += waits
		for i := range status.Logs {
			if log := &status.Logs[i]; log.Log == p.String() {
				log.Lag = waits // the stream knows only what it has fetched
			}
		}
	}
	status.CaughtUp = status.CaughtUp && known && lag == 0
	k.in.SetLagRecords(lag, known)
	return status
}

// Run reads until the context is done.
func (k *alone) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer k.leave()
	defer k.finding.Leave()
	defer running.Wait()
	defer cancel() // also after a panic
	running.Go(func() {
		_ = k.in.Outlive(ctx, "comparing the partitions", func() error { k.follow(ctx); return nil }, func() error { return nil })
	})

	for ctx.Err() == nil {
		for _, p := range k.look(ctx) {
			reading, stop := context.WithCancel(ctx)
			p.stop = stop
			running.Go(func() {
				defer close(p.ended)
				k.own(reading, p)
			})
		}
		sleep.For(ctx, topicsEvery)
	}
	return nil
}

// look looks for partitions, and returns the new ones. It reports the topics that are missing.
func (k *alone) look(ctx context.Context) (found []*alonePartition) {
	var faults []error
	names, decided, err := k.names.look(ctx)
	if err != nil {
		faults = append(faults, err)
	}
	k.keep(names)
	later := k.looked || k.logs.has(k.in.Name())
	for _, name := range names {
		t := k.topic(name, later && k.names.isFound(name))
		count, err := k.client.Partitions(ctx, name)
		if errors.Is(err, topic.ErrNoTopic) {
			t.missing.Add(1)
			err = fmt.Errorf("%w; it is read once it exists, and Weir does not make it there: is its name right?", err)
		} else if err != nil {
			decided = false
		}
		if err != nil {
			faults = append(faults, err)
			continue
		}
		k.remove(name, count)
		found = append(found, k.add(name, count, t.found || t.missing.Load() >= goneLooks)...)
		t.missing.Store(0)
		t.found = true
	}

	k.looked = k.looked || decided
	if ctx.Err() != nil {
		return nil
	}
	if err := errors.Join(faults...); err != nil {
		k.in.Trouble("topics", errors.New(strings.ReplaceAll(err.Error(), "\n", "; ")))
	} else if !k.wasAsked() {
		k.in.Mended("topics")
	}

	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked = len(faults) == 0
	if decided {
		k.finding.Leave()
	}
	return found
}

func (k *alone) wasAsked() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.asked
}

// keep ends the reading of topics that are gone.
func (k *alone) keep(names []string) {
	for name := range k.topics { // only this goroutine changes them
		if slices.Contains(names, name) {
			continue
		}
		k.remove(name, 0)
		k.mu.Lock()
		delete(k.topics, name)
		k.mu.Unlock()
	}
}

// topic returns a topic; one that is not known yet was found before if later.
func (k *alone) topic(name string, later bool) *aloneTopic {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.topics[name]
	if t == nil {
		t = &aloneTopic{name: name, found: later}
		k.topics[name] = t
	}
	return t
}

// add adds the partitions of a topic that are not known yet, and returns them.
func (k *alone) add(name string, count int, later bool) (added []*alonePartition) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for number := range count {
		at := topicPartition{name, number}
		if k.partitions[at] == nil {
			p := &alonePartition{topicPartition: at, later: later, member: k.in.Share(at.String()), offset: -1, ended: make(chan struct{})}
			k.partitions[at] = p
			added = append(added, p)
		}
	}
	return added
}

// remove ends the reading of partitions that a topic no longer has: it was made again with fewer.
func (k *alone) remove(name string, count int) {
	for _, p := range k.beyond(name, count) {
		if count > 0 {
			k.in.Logger().Warn("the topic was made again without a partition that was read", "log", p.String())
		}
		p.stop()
		<-p.ended
		k.in.MendedOf(p.String(), "take", "read", "run")
		k.mu.Lock()
		p.member.Leave()
		delete(k.partitions, p.topicPartition)
		k.mu.Unlock()
	}
}

func (k *alone) beyond(name string, count int) (beyond []*alonePartition) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.partitions {
		if p.topic == name && p.number >= count {
			beyond = append(beyond, p)
		}
	}
	return beyond
}

// leave ends all comparisons.
func (k *alone) leave() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.partitions {
		p.member.Leave()
	}
	clear(k.partitions)
}

// identity returns the identity of a topic: the last known one, or, where that is in doubt or old, the present one.
func (k *alone) identity(ctx context.Context, name string, doubted bool) (topic.Identity, error) {
	t := k.topic(name, false)
	t.mu.Lock()
	defer t.mu.Unlock()
	now := k.in.Now()
	if !doubted && now.Sub(t.at) < identifyEvery {
		return t.id, nil
	}
	id, err := k.client.Identity(ctx, name)
	if err != nil {
		return "", err
	}
	t.id, t.at = id, now
	return id, nil
}

// follow informs the group about the partitions: which of them have nothing to read, if a member waits for that. It
// asks how many records wait of those that are not being fetched.
func (k *alone) follow(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	doubts := k.in.Doubts()
	for ctx.Err() == nil {
		k.measure(ctx, false)
		k.Status() // the gauge
		timer.Reset(peersEvery)
		select {
		case <-doubts:
			doubts = k.in.Doubts() // before the look: a later doubt needs another look
			k.measure(ctx, true)
			sleep.For(ctx, looksEvery)
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// measure asks for the ends of the partitions, or only for those of topics with a partition that was not fetched for a
// while. It informs the group which are read up to there.
func (k *alone) measure(ctx context.Context, all bool) {
	for _, name := range k.names.all() {
		if !all && !k.unseen(name) {
			continue
		}
		at := k.in.Now()
		spans, err := k.client.Offsets(ctx, name)
		if err != nil {
			continue // nothing is known then
		}

		k.mu.Lock()
		for number, span := range spans {
			p := k.partitions[topicPartition{name, number}]
			if p == nil {
				continue
			}
			p.end, p.seen = span.End, at
			if max(0, p.offset) >= span.End {
				p.member.WasEmpty(at)
			}
		}
		k.mu.Unlock()
	}
}

func (k *alone) unseen(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.partitions {
		if p.topic == name && k.in.Now().Sub(p.seen) > unseenAfter {
			return true
		}
	}
	return false
}

// own reads a partition until the context is done.
func (k *alone) own(ctx context.Context, p *alonePartition) {
	for ctx.Err() == nil {
		r := &aloneReader{source: k, partition: p}
		err := k.in.Outlive(ctx, p.String(), func() error { return r.run(ctx) }, func() error { return nil })
		switch {
		case ctx.Err() != nil, errors.Is(err, topic.ErrClosed):
			return
		case errors.Is(err, errTakeOver):
		default:
			k.in.TroubleOf(p.String(), "read", err)
			sleep.For(ctx, retryEvery)
		}
	}
}

// passed notes how far a partition is read, and where its records end, if that is known.
func (k *alone) passed(p *alonePartition, offset, end int64, known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p.offset = offset
	if known {
		p.end, p.seen = max(end, offset), k.in.Now()
	}
}

// waiting returns how many records of a partition wait after an offset, for a stream that waits itself.
func (k *alone) waiting(p *alonePartition, offset int64) (lag int64, known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return max(0, p.end-offset), !p.seen.IsZero()
}

// begun makes a partition, which begins at an offset, another one for the comparison: nothing is known of it.
func (k *alone) begun(p *alonePartition) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := p.member
	p.member = k.in.Share(p.String()) // first, so that no other log goes ahead in between
	before.Leave()
}

func (k *alone) memberOf(p *alonePartition) *pace.Member {
	k.mu.Lock()
	defer k.mu.Unlock()
	return p.member
}
