// Package aggregator counts hits and decides who broke a limit.
//
// An Aggregator takes its share of the partitions of the topic hits. One goroutine owns a partition while it is ours:
// it fetches batches, skips those that were counted before, looks the windows of their keys up, counts, decides,
// publishes what it decided to the topics blocklist and events, and writes back what has changed. No locks are in the
// counting path. Questions about a partition go to its goroutine, which never waits for the store to answer one.
//
// # What holds
//
//   - Every hit of the log is counted once, whatever is killed or cut off, as long as the log and the store do not both
//     lose it. A window's record in the store says which offset it is true for, so counting again what is in it already
//     changes nothing. Replay skips the count, never the consequence: what such a window says is published again.
//   - The checkpoint is behind everything that is not written yet and behind every verdict that Kafka has not
//     acknowledged. It bounds how much is read again, not how old the state is: it follows within some seconds, ten and
//     the time of writing where windows change by the thousand, and at once when nothing more is to be counted.
//   - Only one owner writes. Every write names the fence that the one before has left; with another fence found, all
//     that is in memory is dropped and the partition is taken again, if the group still says that it is ours.
//   - The last record of a key on the list is its owner's. Records that a former owner sent late are published over: those
//     that come while the partition is owned, and those that came since the last checkpoint.
//   - Nothing is counted from zero because the store is away. Hot keys go on; hits of others wait in their order, at
//     most Config.MostWaiting of a partition; then the partition waits.
//   - Verdicts are a function of the log. The wall clock decides only what is published: a verdict whose block is over
//     is not.
//
// # Memory
//
// Config.HotKeys windows are hot, over all partitions; each takes some 280 bytes and 8 for every hit remembered. One
// that is written and has been clear for an hour, by the times of the hits, leaves memory earlier. Besides these there
// are at most some 5,000 evicted windows a partition that are not written yet, 64 batches and two answers of Kafka.
//
// Run starts all goroutines and returns when they have ended. All methods may be called at the same time.
package aggregator

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"weir/internal/telemetry"
	"weir/internal/topic"
	"weir/pkg/aggregator/position"
	"weir/pkg/aggregator/publishing"
	"weir/pkg/aggregator/windows"
	"weir/pkg/blocklist"
	"weir/pkg/rule"
)

// An Aggregator counts the partitions that are its share.
type Aggregator struct {
	config  Config
	logger  *slog.Logger
	faults  *telemetry.Faults
	metrics *metrics
	rules   atomic.Pointer[ruling]
	list    *publishing.List

	seed uint64 // of the hashes of keys that guards count, and of values that are estimated; all aggregators have the same

	tops topTurns

	outsideSince atomic.Int64 // since when there is no place in the group, Unix ms; 0 where there is one

	mu   sync.Mutex
	held map[int]*partition
}

// Open checks what it is given, and with the store that the topic's number of partitions is what it always was.
func Open(ctx context.Context, config Config) (*Aggregator, error) {
	if config.Now == nil {
		config.Now = time.Now
	}
	config.MostWaiting = cmp.Or(config.MostWaiting, 100_000)
	if config.Reread == nil {
		config.Reread = func() {}
	}

	a := &Aggregator{config: config, logger: config.Logger, faults: telemetry.NewFaults(config.Logger),
		metrics: newMetrics(config.Metrics), held: map[int]*partition{}, tops: newTopTurns()}
	if err := a.agreeSeed(ctx); err != nil {
		return nil, err
	}
	if err := a.Reload(config.Rules); err != nil {
		return nil, err
	}
	if err := a.agreePartitions(ctx); err != nil {
		return nil, err
	}

	name, err := a.agreeList(ctx)
	if err != nil {
		return nil, err
	}

	a.list = a.newList(listTopic{config.Client, config.BlocklistTopic}, name)
	registerGauges(config.Metrics, config.Partitions, a.statuses, a.outside)
	return a, nil
}

// agreeList returns the list that all aggregators on the store write to.
func (a *Aggregator) agreeList(ctx context.Context) (string, error) {
	agreed, err := a.config.Store.Agree(ctx, "list", []byte(newListID(a.config.Now()).String()))
	if err != nil {
		return "", fmt.Errorf("agreeing on the list's name: %w", err)
	}
	return string(agreed), nil
}

// agreeSeed takes the seed that the store has. No client knows it.
func (a *Aggregator) agreeSeed(ctx context.Context) error {
	random := make([]byte, 16)
	rand.Read(random)
	agreed, err := a.config.Store.Agree(ctx, "guard.seed", random)
	if err != nil {
		return fmt.Errorf("agreeing on the seed of hashes: %w", err)
	}
	a.seed = xxhash.Sum64(agreed)
	return nil
}

// newListID is that of the list of a new store. The topic may still have watermarks of the store before, so the epoch is
// later than theirs.
func newListID(now time.Time) blocklist.ListID {
	var b [8]byte
	rand.Read(b[:])
	return blocklist.ListID{Name: hex.EncodeToString(b[:]), Epoch: now.UnixMilli()}
}

// newList makes the list that our partitions publish to.
func (a *Aggregator) newList(in publishing.Topic, name string) *publishing.List {
	c := &a.config
	return publishing.NewList(publishing.Config{
		Topic: in, Name: c.BlocklistTopic, Blocklist: c.Blocklist,
		Events: c.Events, EventsPartitions: c.EventsPartitions, Hits: c.GroupHits, Partitions: c.Partitions, Superseded: a.superseded, Agreed: a.agreeList,
		Logger: a.logger, Faults: a.faults, Now: c.Now,
		Blocked: a.metrics.blocked, Guarded: a.metrics.guards, Over: a.metrics.over.Inc, Corrected: a.metrics.corrected.Inc, Unpublished: a.metrics.unpublished.Inc,
	}, name)
}

// A listTopic is the topic of the list in Kafka.
type listTopic struct {
	client topic.Log
	name   string
}

func (t listTopic) End(ctx context.Context) (int64, error) {
	span, err := t.client.PartitionSpan(ctx, t.name, 0)
	return span.End, err
}

func (t listTopic) Identity(ctx context.Context) (topic.Identity, error) {
	return t.client.Reader(t.name, 0, 0, 0).Identity(ctx)
}

func (t listTopic) Reader(offset int64) publishing.Reader {
	return t.client.Reader(t.name, 0, offset, 0)
}

// superseded hands a record of the list that came late to the partition of its key, where that is ours.
func (a *Aggregator) superseded(ctx context.Context, partition int, name string, entry *blocklist.Entry) {
	if p := a.owner(partition); p != nil {
		p.publisher.Superseded(ctx, name, entry)
	}
}

// Reload makes other rules active. The same rules again change nothing.
func (a *Aggregator) Reload(set *rule.Set) error {
	before := a.rules.Load()
	if before != nil && before.fingerprint == set.Fingerprint() {
		return nil
	}
	next, err := newRuling(set, a.config.Late, a.seed)
	if err != nil {
		return err
	}

	a.metrics.showRules(set)
	a.rules.Store(next)
	if before != nil {
		close(before.over)
	}

	return nil
}

// ErrPartitions says that the topic had another number of partitions when the store was begun.
var ErrPartitions = errors.New("the number of partitions has changed")

func (a *Aggregator) agreePartitions(ctx context.Context) error {
	want := strconv.Itoa(a.config.Partitions)
	found, err := a.config.Store.Agree(ctx, "hits.partitions", []byte(want))
	if err != nil {
		return fmt.Errorf("agreeing on the number of partitions: %w", err)
	}
	if string(found) != want {
		return fmt.Errorf("%w: the store counts %.100s, the configuration says %s; their number is fixed for a topic's life, for keys would be counted elsewhere", ErrPartitions, found, want)
	}
	return nil
}

// Run counts until the context is done, or going on is not possible: the topic has another number of partitions.
func (a *Aggregator) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var following sync.WaitGroup
	following.Go(func() { a.list.Follow(ctx) })
	defer following.Wait()
	defer cancel()
	a.place(false)
	group := topic.Group{Name: a.config.Group, Topics: map[string]int{a.config.Hits: a.config.Partitions}, Place: a.place}
	if err := a.config.Client.RunGroup(ctx, group, a.own); err != nil {
		return fmt.Errorf("counting %s: %w", a.config.Hits, err)
	}
	return nil
}

// own holds a partition until the context is done.
func (a *Aggregator) own(ctx context.Context, claim *topic.Claim) error {
	log := a.config.Client.Reader(claim.Topic, claim.Partition, 0, 0)
	commits := position.NewCommits(ctx, func(ctx context.Context, offset int64) error {
		return claim.Commit(ctx, topic.Commit{Offset: offset})
	})
	defer commits.Close()
	p := a.newPartition(claim.Partition, log, commits)
	a.hold(p)
	defer a.release(p)
	p.run(ctx)
	p.own.Calls.Wait()
	return nil
}

// newPartition makes a partition that is read from a log.
func (a *Aggregator) newPartition(number int, log position.Log, commits *position.Commits) *partition {
	config, logger := &a.config, a.logger.With("partition", number)
	p := &partition{config: config, metrics: a.metrics, list: a.list, hotShare: a.share, owedPauses: owedPauses, keptClear: time.Hour, seed: a.seed, number: number, commits: commits, logger: logger,
		faults: telemetry.NewFaults(logger), asks: &questions{number, make(chan func(context.Context))},
		own:   &windows.Owned{Store: config.Store, Partition: number},
		saver: windows.NewSaver(config.Now)}
	p.outage = &outage{own: p.own, now: config.Now, faults: a.faults, failed: a.metrics.storeErrors.WithLabelValues("call")}
	p.position = position.New(log, config.Now, p.lost)
	p.rules = &rulebook{active: &a.rules, hits: a.metrics.hits, reread: config.Reread, asks: p.asks, logger: logger, now: config.Now}
	p.publisher = a.list.Publisher(publishing.Partition{Number: number, Own: p.own, Rule: p.rules.named, Rules: p.rules.set, Modes: p.rules.modes,
		Logger: logger, Faults: p.faults})
	p.problems = &problems{faults: p.faults, now: config.Now, late: config.Late}
	p.counter = &counter{ahead: config.Ahead, late: config.Late, metrics: a.metrics, problems: p.problems, rules: p.rules, publisher: p.publisher}
	return p
}

func (a *Aggregator) hold(p *partition) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held[p.number] = p
}

func (a *Aggregator) release(p *partition) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held[p.number] == p {
		delete(a.held, p.number)
	}
}

// owner is the partition of a number, nil where it is not ours.
func (a *Aggregator) owner(number int) *partition {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held[number]
}

// share is how many hot keys each of our partitions may have.
func (a *Aggregator) share() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.config.HotKeys / max(1, len(a.held))
}

// Status may be called at any time.
func (a *Aggregator) Status() Status {
	s := Status{Rules: a.rules.Load().fingerprint, CaughtUp: !a.outside(), List: a.list.ID().String(), Partitions: []PartitionStatus{}}
	for _, one := range a.statuses() {
		if one == nil {
			s.CaughtUp = false // it is being taken
			continue
		}
		s.CaughtUp = s.CaughtUp && one.caughtUp()
		s.Partitions = append(s.Partitions, *one)
	}
	slices.SortFunc(s.Partitions, func(a, b PartitionStatus) int { return cmp.Compare(a.Partition, b.Partition) })
	return s
}

// StoreFault describes the last call to the store that failed a moment ago; empty when none did.
func (a *Aggregator) StoreFault() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.held {
		if why := p.outage.why(); why != "" {
			return why
		}
	}
	return ""
}

// statuses are those of our partitions by their numbers, nil for one that is being taken.
func (a *Aggregator) statuses() map[int]*PartitionStatus {
	now := a.config.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	all := map[int]*PartitionStatus{}
	for number, p := range a.held {
		all[number] = nil
		if shown := p.shown.Load(); shown != nil {
			s := *shown
			s.LagUnknownSince = s.seen.UnknownSince(now)
			all[number] = &s
		}
	}

	return all
}

// place notes whether this process has a place in its group.
func (a *Aggregator) place(has bool) {
	since := a.config.Now().UnixMilli()
	if has {
		since = 0
	}
	a.outsideSince.Store(since)
}

// outside reports whether the process has had no place in its group for a while, as when Kafka hangs: it has no partitions
// then, and nothing is counted. A place is lost for a moment whenever members come or go.
func (a *Aggregator) outside() bool {
	since := a.outsideSince.Load()
	return since != 0 && a.config.Now().Sub(time.UnixMilli(since)) >= position.LagPatience
}
