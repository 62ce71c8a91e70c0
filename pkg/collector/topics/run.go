package topics

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"weir/internal/sleep"
	"weir/internal/topic"
)

// Run is a member of the group until the context is done.
func (k *source) Run(ctx context.Context) error {
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
		_ = k.in.Outlive(ctx, "comparing the partitions", func() error { k.follow(ctx); return nil }, func() error { return nil })
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

func (k *source) connect(ctx context.Context) (id string, err error) {
	for {
		cluster, err := k.client.Cluster(ctx)
		if err == nil {
			k.in.Mended("connect")
			return cluster.ID, nil
		}
		if ctx.Err() != nil {
			return "", err
		}
		k.in.Trouble("connect", err)
		sleep.For(ctx, retryEvery)
	}
}

// present returns the topics that exist, and reports the missing ones. Their partitions take part in the comparison
// from now on, whichever collector will own them.
func (k *source) present(ctx context.Context) map[string]int {
	topics := map[string]int{}
	var faults []error
	names, found, err := k.names.look(ctx)
	if err != nil {
		faults = append(faults, err)
	}
	k.forget(func(at topicPartition) bool { return !slices.Contains(names, at.topic) })
	if found && !k.looked {
		if k.looked, err = k.readBefore(ctx, names); err != nil {
			faults, found = append(faults, err), false
		}
	}
	for _, name := range names {
		count, err := k.client.Partitions(ctx, name)
		if err != nil {
			faults = append(faults, err)
			found = found && errors.Is(err, topic.ErrNoTopic)
			continue
		}
		topics[name] = 0
		if k.looked && k.names.isFound(name) {
			k.compareNew(name, count)
		}
		k.compare(name, count)
	}
	k.looked = k.looked || found

	if ctx.Err() != nil {
		return nil
	}
	if err := errors.Join(faults...); err != nil {
		k.in.Trouble("topics", errors.New(strings.ReplaceAll(err.Error(), "\n", "; ")))
	} else {
		k.in.Mended("topics")
	}

	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked = len(faults) == 0
	if found {
		k.finding.Leave()
	}

	return topics
}

// readBefore reports whether the group has read any topic that a pattern names. Those that it has not read are new then.
func (k *source) readBefore(ctx context.Context, names []string) (bool, error) {
	for _, name := range names {
		if !k.names.isFound(name) {
			continue
		}
		commits, err := k.client.Committed(ctx, k.group, name)
		if err != nil && !errors.Is(err, topic.ErrNoTopic) {
			return false, err
		}
		if slices.ContainsFunc(commits, func(c topic.Commit) bool { return c.Offset >= 0 }) {
			return true, nil
		}
	}
	return false, nil
}

// share reads the partitions that the group assigns to us, until the topics change or the context is done.
func (k *source) share(ctx context.Context, topics map[string]int) error {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() {
		defer cancel()
		k.in.Isolated("looking for topics", func() { k.watchTopics(ctx, topics) })
	})

	group := topic.Group{Name: k.group, Topics: topics, Session: k.config.Session, Place: k.place, Alone: k.wantsAlone}
	if err := k.client.RunGroup(ctx, group, k.own); err != nil {
		return fmt.Errorf("source %s: %w", k.in.Name(), err)
	}
	return nil
}

// watchTopics returns when a missing topic exists, or a topic has been gone for goneLooks looks.
func (k *source) watchTopics(ctx context.Context, topics map[string]int) {
	missing := map[string]int{} // looks in a row
	for {
		sleep.For(ctx, topicsEvery)
		if ctx.Err() != nil {
			return
		}

		names, asked, err := k.names.look(ctx)
		if err != nil {
			k.in.Trouble("topics", err)
		}
		for name := range topics {
			if asked && !slices.Contains(names, name) {
				return // it is gone
			}
		}
		all := err == nil
		for _, name := range names {
			count, err := k.client.Partitions(ctx, name)
			if err == nil { // it may have been made again with fewer
				k.forget(func(at topicPartition) bool { return at.topic == name && at.number >= count })
			}
			_, read := topics[name]
			all = all && err == nil
			switch {
			case err == nil && !read:
				return
			case errors.Is(err, topic.ErrNoTopic):
				k.in.Trouble("topics", err)
				k.vanish(name)
				missing[name]++
			default:
				delete(missing, name)
			}

			if read && missing[name] >= goneLooks {
				return
			}
		}
		if all {
			k.in.Mended("topics")
		}
	}
}

// own reads a partition as long as it is ours.
func (k *source) own(ctx context.Context, claim *topic.Claim) error {
	p := k.possess(claim.Topic, claim.Partition)
	defer k.dispossess(p)
	o := &ownership{source: k, partition: p, claim: claim}
	for ctx.Err() == nil {
		err := k.in.Outlive(ctx, p.topicPartition.String(), func() error { return o.run(ctx) }, func() error { return nil })

		switch {
		case errors.Is(err, topic.ErrExpelled):
			k.in.Logger().Info("lost a partition: records that no commit contains are dropped here, and its next owner reads them", "log", p.topicPartition.String(), "why", err)
			return nil
		case ctx.Err() != nil, errors.Is(err, topic.ErrClosed):
			return nil
		case errors.Is(err, errTakeOver):
		case errors.Is(err, topic.ErrPermanent):
			return err
		default:
			k.in.TroubleOf(p.topicPartition.String(), "read", err)
			sleep.For(ctx, retryEvery)
		}
	}

	return nil
}
