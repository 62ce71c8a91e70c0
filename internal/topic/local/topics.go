package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"weir/internal/topic"
)

// A storedTopic is a topic with its partitions. Its description changes under Log.mu.
type storedTopic struct {
	description
	name       string
	partitions []*partition
	compact    bool
}

// defaultEndsStay is how long a compacted topic keeps records without a value.
const defaultEndsStay = 24 * time.Hour

// limit returns a setting that is a number of bytes or milliseconds; false when there is none.
func (d *description) limit(name string) (int64, bool) {
	n, err := strconv.ParseInt(d.Settings[name], 10, 64)
	return n, err == nil && n >= 0
}

func newStoredTopic(name string, d description) *storedTopic {
	t := &storedTopic{description: d, name: name, compact: compacts(d.Settings)}
	for n := range d.Partitions {
		t.partitions = append(t.partitions, &partition{of: t, number: n})
	}
	return t
}

func compacts(settings map[string]string) bool {
	return strings.Contains(settings["cleanup.policy"], "compact")
}

// announce wakes those that wait for a topic.
func (l *Log) announce() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// find returns a topic, and a channel that is closed when another one was made.
func (l *Log) find(name string) (*storedTopic, <-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.topics[name]; t != nil {
		return t, l.changed, nil
	}
	if err := l.unloaded(); err != nil {
		return nil, l.changed, err
	}
	return nil, l.changed, topic.Errorf(topic.ErrNoTopic, "topic %s: the topic does not exist", name)
}

// unloaded returns why the topics were never read; nil when they were.
func (l *Log) unloaded() error {
	if l.loaded.Load() != nil {
		return nil
	}
	err := l.database.Fault()
	if err == nil {
		err = errReopened
	}
	return &topic.Error{Text: "the topics are not known yet: " + err.Error(), Kind: topic.ErrUnreachable, Cause: err}
}

// partition returns a partition of a topic.
func (l *Log) partition(name string, n int) (*partition, error) {
	t, _, err := l.find(name)
	if err != nil {
		return nil, err
	}
	if n < 0 || n >= len(t.partitions) {
		return nil, topic.Errorf(topic.ErrNoTopic, "topic %s has no partition %d: it has %d", name, n, len(t.partitions))
	}
	return t.partitions[n], nil
}

// EnsureTopics implements topic.Topics. It adopts settings that differ, but for cleanup.policy.
func (l *Log) EnsureTopics(ctx context.Context, topics ...topic.Topic) error {
	var faults []error
	for _, t := range topics {
		err := l.cause(ctx, l.ensure(ctx, t))
		if err != nil && !errors.Is(err, topic.ErrPermanent) {
			return err
		}
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

func (l *Log) ensure(ctx context.Context, want topic.Topic) error {
	if err := valid(want); err != nil {
		return err
	}

	// In the writer's goroutine, so that it does not come between reading the database again and what is read.
	return l.queue.task(ctx, func(ctx context.Context) error {
		found, _, _ := l.find(want.Name)
		switch {
		case found == nil:
			return l.create(ctx, want)
		case found.Partitions != want.Partitions:
			return topic.Errorf(topic.ErrPartitions, "topic %s has %d partitions and not %d; their number is fixed for a topic's life", want.Name, found.Partitions, want.Partitions)
		case found.compact != compacts(want.Settings):
			return topic.Errorf(topic.ErrSettings, "topic %s has cleanup.policy=%s where %s is needed; that is fixed for a topic's life here",
				want.Name, policy(found.Settings), policy(want.Settings))
		case maps.Equal(found.Settings, want.Settings):
			return nil
		}
		return l.change(ctx, found, want.Settings)
	})
}

func policy(settings map[string]string) string {
	if p := settings["cleanup.policy"]; p != "" {
		return p
	}
	return "delete"
}

func valid(t topic.Topic) error {
	switch {
	case t.Name == "" || len(t.Name) > maxName:
		return topic.Errorf(topic.ErrSettings, "a topic's name has 1 to %d bytes, not %d", maxName, len(t.Name))
	case t.Partitions < 1 || t.Partitions > maxPartitions:
		return topic.Errorf(topic.ErrSettings, "topic %s: a topic has 1 to %d partitions, not %d", t.Name, maxPartitions, t.Partitions)
	}
	return nil
}

func (l *Log) create(ctx context.Context, want topic.Topic) error {
	number := uint32(1)
	all := l.allTopics()
	if len(all) >= maxTopics {
		return topic.Errorf(topic.ErrSettings, "topic %s: there are %d topics, and no more are allowed", want.Name, len(all))
	}
	for _, t := range all {
		number = max(number, t.Number+1)
	}

	d := description{Number: number, ID: newID(), Partitions: want.Partitions, Settings: maps.Clone(want.Settings)}
	if _, err := on(ctx, l, func(db *pebble.DB) (struct{}, error) { return struct{}{}, store(db, want.Name, d) }); err != nil {
		return fmt.Errorf("making topic %s: %w", want.Name, err)
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	l.topics[want.Name] = newStoredTopic(want.Name, d)
	l.announce()
	return nil
}

func (l *Log) change(ctx context.Context, t *storedTopic, settings map[string]string) error {
	d := t.description
	d.Settings = maps.Clone(settings)
	if _, err := on(ctx, l, func(db *pebble.DB) (struct{}, error) { return struct{}{}, store(db, t.name, d) }); err != nil {
		return fmt.Errorf("changing topic %s: %w", t.name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	t.description = d
	return nil
}

// TopicSettings implements topic.Topics.
func (l *Log) TopicSettings(_ context.Context, name string) (map[string]string, error) {
	t, _, err := l.find(name)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	settings := maps.Clone(t.Settings)
	if settings == nil {
		settings = map[string]string{}
	}
	settings["cleanup.policy"] = policy(settings)
	return settings, nil
}

// clusterID stands where Kafka names its cluster. Topics of two folders have different ids.
const clusterID = "local"

// identity returns the identity of a topic.
func (l *Log) identity(name string) (topic.Identity, error) {
	t, _, err := l.find(name)
	if err != nil {
		return "", err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return topic.Identity(clusterID + "/" + name + "/" + t.ID), nil
}

// Cluster implements topic.Topics.
func (l *Log) Cluster(context.Context) (topic.Cluster, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.unloaded(); err != nil {
		return topic.Cluster{}, err
	}
	return topic.Cluster{ID: clusterID, Topics: slices.Sorted(maps.Keys(l.topics))}, nil
}

// Partitions implements topic.Spans.
func (l *Log) Partitions(_ context.Context, name string) (int, error) {
	t, _, err := l.find(name)
	if err != nil {
		return 0, err
	}
	return len(t.partitions), nil
}

// Offsets implements topic.Spans.
func (l *Log) Offsets(_ context.Context, name string) ([]topic.Span, error) {
	t, _, err := l.find(name)
	if err != nil {
		return nil, err
	}
	spans := make([]topic.Span, len(t.partitions))
	for n, p := range t.partitions {
		spans[n] = p.span()
	}
	return spans, nil
}

// PartitionSpan implements topic.Spans.
func (l *Log) PartitionSpan(_ context.Context, name string, n int) (topic.Span, error) {
	p, err := l.partition(name, n)
	if err != nil {
		return topic.Span{}, err
	}
	return p.span(), nil
}

// OffsetAt implements topic.Spans.
func (l *Log) OffsetAt(ctx context.Context, name string, n int, at time.Time) (int64, error) {
	p, err := l.partition(name, n)
	if err != nil {
		return 0, err
	}
	span, ms := p.span(), at.UnixMilli()
	offset, err := on(ctx, l, func(db *pebble.DB) (int64, error) {
		return p.search(db, span, func(h head) bool { return h.at >= ms })
	})
	if err != nil {
		return 0, fmt.Errorf("asking for the offsets of %s/%d: %w", name, n, l.cause(ctx, err))
	}
	return offset, nil
}

// search returns the offset of the first record that is meant, or the end. All records behind a meant one must be meant.
func (p *partition) search(db *pebble.DB, span topic.Span, meant func(head) bool) (int64, error) {
	iterator, err := db.NewIter(&pebble.IterOptions{LowerBound: p.key(span.Start), UpperBound: p.key(span.End)})
	if err != nil {
		return 0, err
	}

	// All meant records are at or behind low, and high is meant or the end.
	low, high := span.Start, span.End
	for low < high && err == nil {
		middle := low + (high-low)/2
		if !iterator.SeekGE(p.key(middle)) {
			high, err = middle, iterator.Error() // compacted: nothing is behind it
			continue
		}

		var offset int64
		var h head
		if offset, h, err = headOf(iterator); err != nil {
			break
		}
		if meant(h) {
			high = middle
		} else {
			low = offset + 1
		}
	}

	// In a compacted log the first record that is meant may be further on.
	if err == nil && low < span.End && iterator.SeekGE(p.key(low)) {
		low, err = offsetIn(iterator.Key())
	} else if err == nil {
		low, err = span.End, iterator.Error()
	}
	return low, errors.Join(err, iterator.Close())
}

func headOf(iterator *pebble.Iterator) (offset int64, h head, err error) {
	if offset, err = offsetIn(iterator.Key()); err == nil {
		_, h, err = readRecord(iterator.Value(), offset)
	}
	return offset, h, err
}
