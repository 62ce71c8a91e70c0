package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/internal/sleep"
	"weir/internal/topic"
)

// Groups returns the states of the groups whose names begin with a prefix, and of the named groups, which need not
// exist yet, sorted by name.
func (c *Client) Groups(ctx context.Context, prefix string, named ...string) ([]topic.GroupState, error) {
	names, err := c.groupNames(ctx, prefix)
	if err != nil {
		return nil, err
	}

	names = append(names, named...)
	slices.Sort(names)
	var states []topic.GroupState
	for _, name := range slices.Compact(names) {
		state, err := c.settledState(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("asking for group %s: %w", name, c.cause(ctx, err))
		}
		states = append(states, state)
	}

	return states, nil
}

func (c *Client) groupNames(ctx context.Context, prefix string) ([]string, error) {
	response, err := c.kafka.ListGroups(ctx, &kafkago.ListGroupsRequest{})
	if err == nil {
		err = response.Error
	}
	if err != nil {
		return nil, fmt.Errorf("asking for groups: %w", c.cause(ctx, err))
	}

	var names []string
	for _, group := range response.Groups {
		if strings.HasPrefix(group.GroupID, prefix) {
			names = append(names, group.GroupID)
		}
	}

	return names, nil
}

// settlePatience is how long a group's coordinator may be unknown. A new cluster creates it at the first request.
const settlePatience = 10 * time.Second

// settledState returns a group's state once it has a coordinator.
func (c *Client) settledState(ctx context.Context, name string) (topic.GroupState, error) {
	var t trouble
	for {
		state, err := c.groupState(ctx, name)
		if !unsettled(err) || ctx.Err() != nil || t.times > 0 && time.Since(t.since) > settlePatience {
			return state, err
		}
		sleep.For(ctx, t.another(time.Now()))
	}
}

// unsettled reports that a group's coordinator is unknown, missing or not ready at the moment.
func unsettled(err error) bool {
	return errors.Is(err, kafkago.NotCoordinatorForGroup) || errors.Is(err, kafkago.GroupCoordinatorNotAvailable) ||
		errors.Is(err, kafkago.GroupLoadInProgress)
}

func (c *Client) groupState(ctx context.Context, name string) (topic.GroupState, error) {
	state := topic.GroupState{Name: name, Commits: map[string]map[int]topic.Commit{}}
	committed, err := c.kafka.OffsetFetch(ctx, &kafkago.OffsetFetchRequest{GroupID: name})
	if err != nil {
		return state, err
	}
	if committed.Error != nil && !unknownGroup(committed.Error) {
		return state, committed.Error
	}

	for topicName, partitions := range committed.Topics {
		for _, p := range partitions {
			if p.Error != nil {
				return state, p.Error
			}

			// Nothing was committed for it.
			if p.CommittedOffset < 0 {
				continue
			}
			if state.Commits[topicName] == nil {
				state.Commits[topicName] = map[int]topic.Commit{}
			}
			state.Commits[topicName][p.Partition] = topic.Commit{Offset: p.CommittedOffset, Metadata: p.Metadata}
		}
	}

	state.Members, err = c.members(ctx, name)
	return state, err
}

// members returns how many members a group has, or -1 when the brokers' answer cannot be read.
func (c *Client) members(ctx context.Context, group string) (int, error) {
	described, err := c.kafka.DescribeGroups(ctx, &kafkago.DescribeGroupsRequest{GroupIDs: []string{group}})
	if err != nil {
		return 0, err
	}

	members := 0
	for _, found := range described.Groups {
		var code kafkago.Error
		switch {
		case found.GroupID != group || unknownGroup(found.Error):
		case errors.As(found.Error, &code):
			return 0, code
		case found.Error != nil: // kafka-go supports only its own protocol
			members = -1
		default:
			members = len(found.Members)
		}
	}

	return members, nil
}

// unknownGroup reports that the group never had members, which some brokers call an error.
func unknownGroup(err error) bool { return errors.Is(err, kafkago.GroupIdNotFound) }
