package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"weir/cmd/internal/config"
	"weir/cmd/internal/daemon"
	"weir/internal/topic"
	"weir/pkg/collector/topics"
	"weir/pkg/notify"
)

// A groupStatus describes how far a consumer group has read.
type groupStatus struct {
	Group      string            `json:"group"`
	Members    int               `json:"members"` // -1 when it is not known
	Lag        int64             `json:"lag"`     // records that the group has not committed
	LagSeconds *float64          `json:"lag_seconds"`
	Partitions []partitionStatus `json:"partitions"`
}

// A partitionStatus describes how far a group has read one partition.
type partitionStatus struct {
	Topic      string   `json:"topic"`
	Partition  int      `json:"partition"`
	Committed  int64    `json:"committed"` // the next offset to be read; -1 when nothing was committed
	End        int64    `json:"end"`
	Lag        int64    `json:"lag"`
	LagSeconds *float64 `json:"lag_seconds"` // the age of the oldest record that waits, 0 when none does; null when it is not known
}

// askGroups asks for all groups of the prefix, and for the groups of the configuration's parts even when they have no
// members yet. A record that was sent before the call counts as waiting unless it is committed.
func askGroups(ctx context.Context, client topic.Log, settings *config.Config) ([]groupStatus, error) {
	expected := expectedGroups(settings)
	prefix := cmp.Or(settings.Kafka.Prefix, "collector.") // without a prefix, other groups may belong to other programs

	states, err := client.Groups(ctx, prefix, slices.Collect(maps.Keys(expected))...)
	if err != nil {
		return nil, err
	}

	var groups []groupStatus
	for _, state := range states {
		// A receiver that fails delays no part, and one that was removed would be behind forever. The enforcers name those
		// that fail.
		if strings.HasPrefix(state.Name, notify.GroupOf(settings.NotifyGroup(), "")) {
			continue
		}
		group, err := askGroup(ctx, client, state, expected[state.Name])
		if err != nil {
			return groups, err
		}
		groups = append(groups, group)
	}

	return groups, nil
}

// expectedGroups returns the groups of the configuration's parts with the topics that they read.
func expectedGroups(settings *config.Config) map[string][]string {
	groups := map[string][]string{settings.AggregatorGroup(): {settings.Kafka.Prefix + daemon.Hits}}
	for i := range settings.Collector.Sources {
		if s := &settings.Collector.Sources[i]; s.Kind() == "kafka" && !s.Local() {
			groups[settings.CollectorGroup(s)] = slices.DeleteFunc(slices.Clone(s.Kafka), topics.IsPattern) // the others are in commits
		}
	}
	if s := settings.RefusalsSource(); s != nil {
		groups[settings.CollectorGroup(s)] = s.Kafka
	}
	return groups
}

func askGroup(ctx context.Context, client topic.Log, state topic.GroupState, topics []string) (groupStatus, error) {
	group := groupStatus{Group: state.Name, Members: state.Members, Partitions: []partitionStatus{}, LagSeconds: new(float64)}
	topics = slices.Concat(topics, slices.Collect(maps.Keys(state.Commits)))
	slices.Sort(topics)
	for _, name := range slices.Compact(topics) {
		spans, err := client.Offsets(ctx, name)
		if errors.Is(err, topic.ErrNoTopic) {
			continue // nothing waits in a missing topic
		}
		if err != nil {
			return group, fmt.Errorf("group %s: %w", state.Name, err)
		}

		for p, span := range spans {
			one := partitionStatus{Topic: name, Partition: p, Committed: -1, End: span.End}
			if commit, ok := state.Commits[name][p]; ok {
				one.Committed = commit.Offset
			}
			one.measure(ctx, client, span)
			group.add(one)
		}
	}

	return group, nil
}

// measure finds out how many records wait, and since when.
func (p *partitionStatus) measure(ctx context.Context, client topic.Log, span topic.Span) {
	next := max(p.Committed, span.Start)
	p.Lag = max(0, span.End-next)
	if p.Lag == 0 {
		p.LagSeconds = new(float64)
		return
	}
	if oldest, ok := timeOf(ctx, client.Reader(p.Topic, p.Partition, next, 1), span.End); ok {
		p.LagSeconds = new(max(0, time.Since(oldest).Truncate(time.Millisecond).Seconds()))
	}
}

// timePatience is how long timeOf may look for one record.
const timePatience = 2 * time.Second

// timeOf returns the time of the first record that a reader finds before the end.
func timeOf(ctx context.Context, r topic.Reader, end int64) (time.Time, bool) {
	ctx, cancel := context.WithTimeout(ctx, timePatience)
	defer cancel()
	for ctx.Err() == nil && r.Next() < end {
		records, err := r.Fetch(ctx)
		if errors.Is(err, topic.ErrTrimmed) {
			r.SetNext(r.Span().Start)
		}
		if len(records) > 0 {
			return records[0].Time, true
		}
	}

	return time.Time{}, false
}

// add adds a partition. The group's LagSeconds is the longest of its partitions.
func (g *groupStatus) add(p partitionStatus) {
	g.Partitions = append(g.Partitions, p)
	g.Lag += p.Lag
	switch {
	case p.LagSeconds == nil:
		g.LagSeconds = nil
	case g.LagSeconds != nil:
		g.LagSeconds = new(max(*g.LagSeconds, *p.LagSeconds))
	}
}
