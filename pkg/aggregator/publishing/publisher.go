// Package publishing publishes what the counting of a partition leads to, and keeps the list of blocks true to it.
//
// A List is the topic that all partitions publish to, and which list it is. A Publisher is a partition's. It decides what
// follows from a hit that began, extended or moved a block, and sends entries, events and marks. It keeps what Kafka has
// not acknowledged, so that no checkpoint passes it. It publishes again what a former owner may not have published, what
// late hits have corrected, what late records stand in front of, and in walks over the index all that is live; and it
// ends what is of rules that are gone.
//
// One goroutine uses a Publisher, but for Superseded. The package sends, but does not count, and does not know where
// counting stands. It reads and writes windows by their Set and their Owned partition.
package publishing

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"

	"weir/internal/store"
	"weir/internal/telemetry"
	"weir/internal/topic"
	"weir/pkg/aggregator/windows"
	"weir/pkg/blocklist"
	"weir/pkg/rule"
)

const markEvery = 10 * time.Second

// A Partition is one whose verdicts are published.
type Partition struct {
	Number int
	Own    *windows.Owned
	Rule   func(name string) *windows.Rule // nil where it is not active
	Rules  func() *rule.Set                // the active ones
	Modes  func() uint64                   // a hash of the names and modes of the active rules
	Logger *slog.Logger
	Faults *telemetry.Faults
}

// A Publisher publishes for a partition.
type Publisher struct {
	of       Partition
	list     *List
	find     finder
	post     post
	changed  changed
	late     late
	groups   groups
	walk     walk
	nextMark time.Time
	marked   *atomic.Bool // the last mark has arrived; nil before the first
}

// Publisher makes the Publisher of a partition. Reset and Begin have to follow.
func (l *List) Publisher(of Partition) *Publisher {
	p := &Publisher{of: of, list: l, find: finder{own: of.Own, rule: of.Rule}, post: post{list: l, faults: of.Faults},
		changed: changed{list: l, logger: of.Logger}, late: late{found: make(chan lateRecord, mostFound)},
		groups: groups{list: l, number: of.Number, rules: of.Rules}}
	p.walk = walk{find: &p.find, post: &p.post, late: &p.late, modes: of.Modes, logger: of.Logger, faults: of.Faults}
	return p
}

// Reset forgets all but the records that came late: the partition is taken again, with another set of windows.
func (p *Publisher) Reset(set *windows.Set) {
	p.find.set = set
	p.post.forget()
	p.changed.forget()
	p.groups.begin()
	p.groups.windows = set
	p.walk.steps = steps{}
	p.nextMark, p.marked = time.Time{}, nil
}

// Begin starts from the notes that the store has, and from the offset that the list had come to with the last checkpoint;
// -1 for none. It reads which records of the list have come since; of another topic than the last owner's all.
func (p *Publisher) Begin(ctx context.Context, note, topicNote []byte, listed int64) error {
	if err := p.walk.restore(note, topicNote); err != nil {
		return err
	}
	same, err := p.list.seen(ctx, p.walk.note.list, p.walk.note.topic, listed)
	if err != nil {
		return err
	}
	if !same {
		listed = unknown
	}
	if p.walk.note.topic == "" && p.walk.complete() {
		p.walk.note.topic = p.list.InTopic()
	}
	if err := p.walk.mix(ctx); err != nil {
		return err
	}
	p.walk.takeOver(ctx)
	p.late.lookBack(ctx, p.list, p.of.Number, listed, p.walk.took)
	return nil
}

// Passed gathers what the groups above count of the last hit of a group's window.
func (p *Publisher) Passed(w *windows.Window) { p.groups.passed(w) }

// Skipped notes that hits were skipped which a window has already.
func (p *Publisher) Skipped(w *windows.Window) { p.changed.skipped(w) }

// Publish sends what was decided, but for hits of group rules. The error is ErrSend.
func (p *Publisher) Publish(ctx context.Context, all []Publication) error {
	for _, one := range all {
		if err := p.post.publish(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

// Gathered is how many hits of group rules wait for SendHits.
func (p *Publisher) Gathered() int { return len(p.groups.gathered) }

// SendHits sends the hits of group rules of what was decided. The error is ErrSend.
func (p *Publisher) SendHits(ctx context.Context) error { return p.groups.send(ctx, &p.post) }

// Sent is how much was sent so far.
func (p *Publisher) Sent() uint64 { return p.post.sent }

// Acknowledged is how much of what was sent is acknowledged, without a gap.
func (p *Publisher) Acknowledged() uint64 { return p.post.acknowledged() }

// Owes reports whether hits of group rules are not acknowledged: until they are, no window may be written.
func (p *Publisher) Owes() bool {
	return len(p.groups.gathered) > 0 || p.post.owed > 0 && p.post.acknowledged() < p.post.owed
}

// Awaits reports whether something waits for the next checkpoint.
func (p *Publisher) Awaits() bool {
	return len(p.changed.replayed) > 0 || p.find.set.Written() < p.walk.written
}

// PublishChanged publishes what has to be published with the next checkpoint.
func (p *Publisher) PublishChanged(ctx context.Context) error {
	if len(p.changed.replayed)+len(p.changed.corrected) == 0 {
		return nil
	}
	replayed, corrected := p.find.windows(maps.Keys(p.changed.replayed)), p.find.windows(maps.Keys(p.changed.corrected))
	if err := p.find.set.Load(ctx); err != nil {
		return err
	}

	var all []Publication
	for _, w := range corrected {
		all = p.changed.correct(all, w)
	}
	for _, w := range replayed {
		all = p.changed.again(all, w)
	}

	if err := p.Publish(ctx, all); err != nil {
		return err
	}
	p.changed.forget()
	p.find.set.Settle()
	return nil
}

// PublishAgain publishes over records that came late, and goes on with the walk over what is live when it is due.
func (p *Publisher) PublishAgain(ctx context.Context) error {
	if err := p.late.heal(ctx, &p.find, &p.post); err != nil {
		return err
	}
	return p.walk.turn(ctx)
}

// Superseded has a record that came late be published over; entry is nil for one without a value. Any goroutine may call
// it. It waits, at most a second, while the partition's goroutine does.
func (p *Publisher) Superseded(ctx context.Context, name string, entry *blocklist.Entry) {
	p.late.add(ctx, lateRecord{name, entry})
}

// Restart has all that is live be published again, for the log of hits is another.
func (p *Publisher) Restart() {
	clear(p.changed.replayed)
	p.walk.note.since = unknown
}

// Notes are what the store has to learn of the walk, with the next checkpoint.
func (p *Publisher) Notes() []store.Change { return p.walk.notes() }

// Noted says that the store has the notes.
func (p *Publisher) Noted() { p.walk.stored = p.walk.note }

// Complete reports whether all that is live is published on the present list.
func (p *Publisher) Complete() bool { return len(p.changed.replayed) == 0 && p.walk.complete() }

// Walks reports whether a walk over what is live is going on.
func (p *Publisher) Walks() bool { return p.walk.going != nil }

// Mark has readers of the list know how far the partition is counted, each ten seconds. There is no mark while entries
// are missing on the list: readers see the list's age grow.
func (p *Publisher) Mark(ctx context.Context, generation, offset, reached int64) error {
	now := p.list.config.Now()
	if now.Before(p.nextMark) || p.marked != nil && !p.marked.Load() || !p.Complete() {
		return nil
	}

	p.list.log.sayOver(p.list.config.Logger, now)
	p.list.guards.say(p.list.config.Logger, now)
	m := blocklist.Mark{List: p.list.ID(), Partition: p.of.Number, Partitions: p.list.config.Partitions, Generation: generation, Offset: offset,
		Reached: reached, At: now.UnixMilli(), Since: p.walk.note.since}
	value, err := m.Append(nil)
	if err != nil {
		p.of.Faults.Note("mark", err)
		return nil
	}

	arrived, sent := &atomic.Bool{}, p.list.place()
	message := topic.Message{Key: m.RecordKey(), Value: value, Done: func(offset int64, err error) {
		arrived.Store(true)
		if err == nil {
			p.list.arrived(offset, sent)
		}
	}}

	if err := p.list.config.Blocklist.Send(ctx, message); err != nil {
		return fmt.Errorf("a mark: %w: %w", ErrSend, err)
	}
	p.nextMark, p.marked = now.Add(markEvery), arrived
	return nil
}
