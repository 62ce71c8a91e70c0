package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"weir/internal/database"
	"weir/internal/topic"
)

// A pendingCommit is a commit that waits to be written.
type pendingCommit struct {
	claim   *claim
	commit  topic.Commit
	refused error // set by the writer, before it is answered
}

// commit writes a commit, as the owner of a claim.
func (l *Log) commit(ctx context.Context, c *claim, commit topic.Commit) error {
	pending := &pendingCommit{claim: c, commit: commit}
	done := make(chan error, 1)
	if _, err := l.queue.addTogether(nil, &extra{commit: pending, done: func(err error) { done <- err }}); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// encode adds the commit to a write, unless the claim has ended.
func (p *pendingCommit) encode(batch *pebble.Batch) error {
	c := p.claim
	if !c.valid() {
		p.refused = topic.Errorf(topic.ErrExpelled, "committing %s/%d for group %s: the partition has another owner", c.topic, c.partition, c.group.name)
		return nil
	}
	return batch.Set(commitKey(c.group.name, c.topic, c.partition), appendCommit(nil, p.commit), nil)
}

// Committed implements topic.Positions.
func (l *Log) Committed(ctx context.Context, group, name string) ([]topic.Commit, error) {
	t, _, err := l.find(name)
	if err != nil {
		return nil, err
	}
	commits, err := on(ctx, l, func(db *pebble.DB) ([]topic.Commit, error) { return t.committed(db, group) })
	if err != nil {
		return nil, fmt.Errorf("reading the commits of group %s for %s: %w", group, name, l.cause(ctx, err))
	}
	return commits, nil
}

func (t *storedTopic) committed(db *pebble.DB, group string) ([]topic.Commit, error) {
	commits := make([]topic.Commit, len(t.partitions))
	for n := range commits {
		commits[n] = topic.Commit{Offset: -1}
		value, err := database.Get(db, commitKey(group, t.name, n))
		if err == nil && value != nil {
			commits[n], err = readCommit(value)
		}
		if err != nil {
			return nil, err
		}
	}
	return commits, nil
}

// Groups implements topic.Positions.
func (l *Log) Groups(ctx context.Context, prefix string, named ...string) ([]topic.GroupState, error) {
	states, err := on(ctx, l, func(db *pebble.DB) (map[string]*topic.GroupState, error) {
		return readGroups(db, func(group string) bool { return strings.HasPrefix(group, prefix) || slices.Contains(named, group) })
	})
	if err != nil {
		return nil, fmt.Errorf("asking for groups: %w", l.cause(ctx, err))
	}

	for _, name := range slices.Concat(named, l.groups.names(prefix)) {
		if states[name] == nil {
			states[name] = &topic.GroupState{Name: name, Commits: map[string]map[int]topic.Commit{}}
		}
	}

	var sorted []topic.GroupState
	for _, name := range slices.Sorted(maps.Keys(states)) {
		states[name].Members = l.groups.members(name)
		sorted = append(sorted, *states[name])
	}
	return sorted, nil
}

func readGroups(db *pebble.DB, wanted func(string) bool) (map[string]*topic.GroupState, error) {
	iterator, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{ours, aCommit}, UpperBound: []byte{ours, aCommit + 1}})
	if err != nil {
		return nil, err
	}
	states := map[string]*topic.GroupState{}
	for ok := iterator.First(); ok && err == nil; ok = iterator.Next() {
		err = readGroup(states, iterator, wanted)
	}
	return states, errors.Join(err, iterator.Error(), iterator.Close())
}

func readGroup(states map[string]*topic.GroupState, iterator *pebble.Iterator, wanted func(string) bool) error {
	group, name, partition, err := readCommitKey(iterator.Key())
	if err != nil || !wanted(group) {
		return err
	}
	commit, err := readCommit(iterator.Value())
	if err != nil {
		return err
	}

	state := states[group]
	if state == nil {
		state = &topic.GroupState{Name: group, Commits: map[string]map[int]topic.Commit{}}
		states[group] = state
	}
	if state.Commits[name] == nil {
		state.Commits[name] = map[int]topic.Commit{}
	}
	state.Commits[name][partition] = commit
	return nil
}

// Notes returns the notes whose keys begin with a prefix, in the order of their keys.
func (l *Log) Notes(ctx context.Context, prefix []byte) ([]topic.Note, error) {
	from := append([]byte{ours, aNote}, prefix...)
	notes, err := on(ctx, l, func(db *pebble.DB) (notes []topic.Note, err error) {
		iterator, err := db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: []byte{ours, aNote + 1}})
		if err != nil {
			return nil, err
		}
		for ok := iterator.First(); ok && bytes.HasPrefix(iterator.Key(), from); ok = iterator.Next() {
			notes = append(notes, topic.Note{Key: bytes.Clone(iterator.Key()[2:]), Value: append([]byte{}, iterator.Value()...)})
		}
		return notes, errors.Join(iterator.Error(), iterator.Close())
	})
	if err != nil {
		return nil, fmt.Errorf("reading notes: %w", l.cause(ctx, err))
	}
	return notes, nil
}
