package publishing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"weir/internal/sleep"
	"weir/internal/telemetry"
	"weir/internal/topic"
	"weir/pkg/aggregator/windows"
	"weir/pkg/blocklist"
	"weir/pkg/hit"
)

const (
	tryAgain      = 500 * time.Millisecond // between tries of what fails
	shortPatience = 15 * time.Second       // for a log that ends too early
	identifyEvery = 10 * time.Second       // which topic the list is in
)

// A Topic is the list's.
type Topic interface {
	End(ctx context.Context) (int64, error)
	Reader(offset int64) Reader
	Identity(ctx context.Context) (topic.Identity, error)
}

// A Reader reads a Topic: a kafka.Reader.
type Reader interface {
	Fetch(ctx context.Context) ([]topic.Record, error)
	Next() int64
	SetNext(offset int64)
	Span() topic.Span
}

// A Sender is a producer: it takes messages in their order and answers each one's Done once. It waits while it is full.
type Sender interface {
	Send(ctx context.Context, messages ...topic.Message) error
}

// Config says what a List works with.
type Config struct {
	Topic            Topic
	Name             string // of the topic
	Blocklist        Sender
	Events           Sender
	EventsPartitions int
	Hits             Sender // of group rules; nil leaves these out
	Partitions       int    // of hits

	// Superseded hands a record that came late to a partition's Publisher, where the partition is ours.
	Superseded func(ctx context.Context, partition int, name string, entry *blocklist.Entry)

	// Agreed is the list that the store has, as given to NewList; a store that has none takes a new one.
	Agreed func(ctx context.Context) (string, error)

	Logger *slog.Logger
	Faults *telemetry.Faults
	Now    func() time.Time

	// For metrics:
	Blocked     func(rule *windows.Rule, v *windows.Verdict, after time.Duration) // a block is published
	Guarded     func(rule *windows.Rule, by windows.Beyond)                       // one that the rule's guard keeps from being enforced
	Over        func()                                                            // one was over before it could be
	Corrected   func()                                                            // an entry is published again, for late hits have moved it
	Unpublished func()                                                            // an entry or event is refused permanently
}

// A List is which list all aggregators write to. Its name is agreed on in the store; its epoch grows when the topic is
// another: it was made again, or the brokers or the prefix are others. An aggregator sees that when it takes a partition,
// by the note of the topic that the list was in, and as it follows the topic's end. A topic that has lost its end, as after
// a power failure of its only broker, counts as another too. When the store is another too, such as
// with a folder that has both, the name is as well: nothing but the list before has its blocks then.
type List struct {
	config Config
	log    verdictLog
	guards guardLog

	mu     sync.Mutex
	id     blocklist.ListID
	topic  topic.Identity // that the list is in; empty while it is unknown
	sure   bool           // the list is known to be in that topic
	newest int64          // an offset that was acknowledged, unknown before
	back   bool           // a record has got an offset that the list had passed before
}

// A place is how far a list had got when a record was sent.
type place struct {
	list   blocklist.ListID
	newest int64
}

// NewList makes the List that was agreed on: a list's id, or as earlier programs have agreed, a name.
func NewList(config Config, agreed string) *List {
	return &List{config: config, id: agreedID(agreed), newest: unknown}
}

func agreedID(agreed string) blocklist.ListID {
	id, err := blocklist.ParseListID(agreed)
	if err != nil {
		return blocklist.ListID{Name: agreed}
	}
	return id
}

// ID is the list's.
func (l *List) ID() blocklist.ListID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.id
}

// Newest is an offset of the topic that was acknowledged; -1 before the first.
func (l *List) Newest() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newest
}

// place is how far the list has got.
func (l *List) place() place {
	l.mu.Lock()
	defer l.mu.Unlock()
	return place{l.id, l.newest}
}

// arrived notes that a record has arrived. A log gives an offset twice only if it went back meanwhile: it lost its end.
// New records fill it again, often before anyone sees that it is shorter.
func (l *List) arrived(offset int64, sent place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.newest = max(l.newest, offset)
	if offset <= sent.newest && sent.list == l.id {
		l.back = true
	}
}

// wentBack reports whether the log has lost its end since the list began.
func (l *List) wentBack() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.back
}

// seen notes what a partition's former owner knew: the list's id, its topic, and how far that had got. It reports whether
// the topic is still that one. A topic that is not known counts as another: then all that is live is published again,
// which is never wrong.
func (l *List) seen(ctx context.Context, id string, in topic.Identity, newest int64) (same bool, err error) {
	identity, err := l.config.Topic.Identity(ctx)
	if err != nil {
		return false, fmt.Errorf("which topic the list is in: %w", err)
	}
	if _, err := l.found(ctx, identity); err != nil {
		return false, err
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	known, err := blocklist.ParseListID(id)
	if err != nil || identity == "" || in != "" && in.Is(identity) { // no list yet, or brokers that do not name their cluster
		if err == nil && l.adoptKnown(known) {
			l.sure = true
		}
		if err != nil || known == l.id { // the offsets of an earlier list are no measure of this one
			l.newest = max(l.newest, newest)
		}
		return true, nil
	}

	if in == "" && l.sure && known == l.id { // noted by a program that does not note topics
		return false, nil
	}
	if known.Epoch >= l.id.Epoch {
		l.next(known.Epoch, unknown)
		l.config.Logger.Warn("the list is in another topic than before: all that is live is published again", "topic", identity, "before", in, "list", l.id)
	}
	return false, nil
}

// found notes which topic the list is written to. One that is another than before begins a list, and is reported.
func (l *List) found(ctx context.Context, identity topic.Identity) (another bool, err error) {
	if identity == "" {
		return false, nil
	}
	if before := l.InTopic(); before == "" || identity.Is(before) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.topic = identity
		return false, nil
	}

	agreed, err := l.config.Agreed(ctx)
	if err != nil {
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if another = !identity.Is(l.topic); another { // no partition has found it meanwhile
		l.rename(agreed)
		l.next(l.id.Epoch, unknown)
	}
	l.topic = identity
	return another, nil
}

// rename gives the list the name that the store has. It differs only where the store is another. The caller holds the
// lock.
func (l *List) rename(agreed string) {
	if id := agreedID(agreed); id.Name != l.id.Name {
		l.id = blocklist.ListID{Name: id.Name, Epoch: max(id.Epoch, l.id.Epoch)}
	}
}

// next has the list be a new one, after all of an epoch. The caller holds the lock.
func (l *List) next(after, newest int64) {
	l.id.Epoch = max(after+1, l.id.Epoch+1, l.config.Now().UnixMilli())
	l.newest, l.sure, l.back = newest, true, false
}

// InTopic is the topic that the list is in; empty while it is unknown.
func (l *List) InTopic() topic.Identity {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.topic
}

// adopt takes a list that others found later than ours; at an offset is one of its marks.
func (l *List) adopt(id blocklist.ListID, offset int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.adoptKnown(id) {
		l.newest = max(l.newest, offset)
	}
}

// adoptKnown takes a list that is later than ours, and reports whether it is ours now. The caller holds the lock.
func (l *List) adoptKnown(id blocklist.ListID) bool {
	if id.Epoch > l.id.Epoch {
		l.id, l.newest, l.sure, l.back = id, unknown, false, false
		l.config.Logger.Warn("the list is another: all that is live is published again", "list", id)
	}
	return id == l.id
}

// Follow reads the end of the topic until the context is done.
func (l *List) Follow(ctx context.Context) {
	var reader Reader
	for ctx.Err() == nil && reader == nil {
		end, err := l.config.Topic.End(ctx)
		if err != nil {
			l.config.Faults.Note("list", err)
			sleep.For(ctx, tryAgain)
			continue
		}
		l.config.Faults.Over("list")
		reader = l.config.Topic.Reader(end)
	}

	last, short, asked := int64(unknown), doubt{}, time.Time{}
	for ctx.Err() == nil {
		if now := l.config.Now(); now.Sub(asked) >= identifyEvery || now.Before(asked) {
			asked = now
			if l.moved(ctx) {
				reader.SetNext(0)
				last, short = unknown, doubt{}
			}
		}

		newest := l.Newest()
		records, err := reader.Fetch(ctx)
		span := reader.Span()
		switch {
		case errors.Is(err, topic.ErrPastEnd) || err == nil && (l.wentBack() || short.lasts(span.End <= newest || span.End < last, l.config.Now())):
			if err := l.begin(ctx, span); err != nil {
				l.config.Faults.Note("list", err)
				sleep.For(ctx, tryAgain)
				continue
			}
			l.config.Faults.Over("list")
			short = doubt{}
			reader.SetNext(span.Start)
			last = span.End
			continue
		case errors.Is(err, topic.ErrTrimmed):
			reader.SetNext(span.Start)
			continue
		case err != nil:
			continue // the reader logs it, and has paused
		}

		last = max(last, span.End)
		for i := range records {
			l.look(ctx, &records[i])
		}
	}
}

// moved asks which topic the list is in, and reports whether it is another than before. A topic that was made again may
// have grown beyond the old one's end before anyone looks.
func (l *List) moved(ctx context.Context) bool {
	identity, err := l.config.Topic.Identity(ctx)
	if err != nil {
		return false // readers and producers report it
	}
	another, err := l.found(ctx, identity)
	if err != nil {
		l.config.Faults.Note("list", err)
		return false
	}
	if another {
		l.config.Logger.Error("the topic of the list was made again: all that is live is published again", "topic", identity, "list", l.ID())
	}
	return another
}

// read reads records of the list, up to an offset that exists.
func (l *List) read(ctx context.Context, from, to int64, each func(*topic.Record)) error {
	reader := l.config.Topic.Reader(from)
	for reader.Next() < to {
		records, err := reader.Fetch(ctx)
		if errors.Is(err, topic.ErrTrimmed) {
			reader.SetNext(reader.Span().Start)
			continue
		}
		if err != nil {
			return fmt.Errorf("reading the end of the list: %w", err)
		}

		for i := range records {
			each(&records[i])
		}
	}

	return nil
}

// A doubt is the time since which a log seems to end before records that are known to be in it. After a change of the
// leader that may be so for a moment.
type doubt struct{ since time.Time }

// lasts reports whether it has been so for longer than that moment.
func (d *doubt) lasts(short bool, now time.Time) bool {
	if !short {
		d.since = time.Time{}
		return false
	}
	if d.since.IsZero() {
		d.since = now
	}
	return now.Sub(d.since) >= shortPatience
}

// begin begins a list: the topic is not the one that we wrote to, or it has lost its end.
func (l *List) begin(ctx context.Context, span topic.Span) error {
	agreed, err := l.config.Agreed(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rename(agreed)
	l.next(l.id.Epoch, span.End-1)
	l.config.Logger.Error("the topic of the list was made again, or has lost its end: all that is live is published again", "topic", l.config.Name, "list", l.id, "ends at", span.End)
	return nil
}

// look hands a record to the owner of its key, which knows whether it came too late.
func (l *List) look(ctx context.Context, r *topic.Record) {
	record, err := blocklist.DecodeRecord(r.Key, r.Value)
	switch {
	case err != nil:
		return // readers of the list log it
	case record.Mark != nil:
		l.adopt(record.Mark.List, r.Offset)
	case record.Entry != nil || r.Value == nil:
		if number, ok := l.partitionOf(r.Key); ok {
			l.config.Superseded(ctx, number, string(r.Key), record.Entry)
		}
	}
}

// partitionOf is the partition of hits that an entry's record comes from; false for records that are no entry's.
func (l *List) partitionOf(recordKey []byte) (int, bool) {
	rule, key, err := blocklist.ParseRecordKey(recordKey)
	return hit.Partition(rule, []byte(key), l.config.Partitions), err == nil
}
