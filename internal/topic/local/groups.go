package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/topic"
)

// groups are the groups that have members.
type groups struct {
	mu    sync.Mutex
	named map[string]*group
	ids   int // of members, so far
}

// A group shares partitions among its members. Everything in it is under groups.mu.
type group struct {
	of      *groups
	name    string
	members []*member // in the order in which they came
	seats   map[seatKey]*seat
	changes int // of the members, so far
}

type seatKey struct {
	topic     string
	partition int
}

// A seat is a partition in a group, with its owner now and the one that it should have.
type seat struct {
	seatKey
	target *member // nil when no one reads the topic
	owned  *claim  // nil when no one owns it
	rests  int     // the number of changes at which its owner returned by itself; -1 when none did
}

// A member is one run of a group.
type member struct {
	log    *Log
	id     string
	group  topic.Group
	own    topic.Owner
	ctx    context.Context // until the member leaves; its cause is the reason
	cancel context.CancelCauseFunc
	counts map[string]int // partitions by topic
	owners sync.WaitGroup
}

// A claim is an owner's.
type claim struct {
	group      *group
	topic      string
	partition  int
	partitions int
	member     *member
	release    context.CancelFunc
	released   bool
	grace      *time.Timer // once it is released
	ended      bool        // it cannot commit any more
}

func (c *claim) valid() bool {
	c.group.of.mu.Lock()
	defer c.group.of.mu.Unlock()
	return !c.ended
}

// RunGroup implements topic.Members.
func (l *Log) RunGroup(ctx context.Context, of topic.Group, own topic.Owner) error {
	if of.Name == "" || len(of.Name) > maxName || len(of.Topics) == 0 {
		return errors.New("a group needs a name of at most 249 bytes and a topic")
	}
	of.Rebalance = cmp.Or(of.Rebalance, defaultGrace)
	m := &member{log: l, group: of, own: own}
	m.ctx, m.cancel = context.WithCancelCause(ctx)
	defer m.cancel(nil)
	if err := m.awaitTopics(); err != nil {
		m.cancel(err)
		return m.result(ctx)
	}

	l.groups.join(m)
	if of.Place != nil {
		of.Place(true)
	}
	select {
	case <-m.ctx.Done():
	case <-l.ended:
		m.cancel(errClosed)
	}
	if of.Place != nil {
		of.Place(false)
	}
	l.groups.leave(m)
	m.owners.Wait()
	return m.result(ctx)
}

// result returns why the member left; nil if the caller ended it.
func (m *member) result(outer context.Context) error {
	if outer.Err() != nil {
		return nil //nolint:nilerr // that the caller wants no more is no fault
	}
	return context.Cause(m.ctx)
}

// awaitTopics waits until all topics exist, and checks their partitions.
func (m *member) awaitTopics() error {
	m.counts = map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(m.group.Topics)) {
		t, err := m.awaitTopic(name)
		if err != nil {
			return err
		}
		if want := m.group.Topics[name]; want != 0 && len(t.partitions) != want {
			return topic.Errorf(topic.ErrPartitions, "topic %s has %d partitions and not %d; their number is fixed for a topic's life", name, len(t.partitions), want)
		}
		m.counts[name] = len(t.partitions)
	}
	return nil
}

func (m *member) awaitTopic(name string) (*storedTopic, error) {
	for {
		t, made, err := m.log.find(name)
		if err == nil {
			return t, nil
		}
		select {
		case <-made:
		case <-m.log.ended:
			return nil, errClosed
		case <-m.ctx.Done():
			return nil, context.Cause(m.ctx)
		}
	}
}

func (g *groups) join(m *member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	of := g.named[m.group.Name]
	if of == nil {
		of = &group{of: g, name: m.group.Name, seats: map[seatKey]*seat{}}
		g.named[m.group.Name] = of
	}

	g.ids++
	m.id = fmt.Sprintf("member-%d", g.ids)
	of.members = append(of.members, m)
	for name, count := range m.counts {
		for n := range count {
			key := seatKey{name, n}
			if of.seats[key] == nil {
				of.seats[key] = &seat{seatKey: key, rests: -1}
			}
		}
	}
	of.share()
}

func (g *groups) leave(m *member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	of := g.named[m.group.Name]
	of.members = slices.DeleteFunc(of.members, func(other *member) bool { return other == m })
	of.share()
	g.forget(of)
}

// forget forgets a group that no one is in.
func (g *groups) forget(of *group) {
	if len(of.members) > 0 {
		return
	}
	for _, s := range of.seats {
		if s.owned != nil {
			return
		}
	}
	delete(g.named, of.name)
}

func (g *groups) names(prefix string) (names []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for name := range g.named {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names
}

func (g *groups) members(name string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if of := g.named[name]; of != nil {
		return len(of.members)
	}
	return 0
}

// share gives every partition to a member that reads its topic: to the one that has it, while that has no more than its
// share, otherwise to the one with the fewest.
func (g *group) share() {
	g.changes++
	all := slices.SortedFunc(maps.Values(g.seats), func(a, b *seat) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
	})

	has := map[*member]int{}
	if n := len(g.members); n > 0 {
		even, over := len(all)/n, len(all)%n
		for _, s := range all {
			m := s.target
			s.target = nil
			if m == nil || !slices.Contains(g.members, m) {
				continue
			}

			// Up to an even share, and one more while there is a remainder: the others must get theirs.
			switch {
			case has[m] < even:
			case has[m] == even && over > 0:
				over--
			default:
				continue
			}
			has[m]++
			s.target = m
		}
	} else {
		for _, s := range all {
			s.target = nil
		}
	}

	for _, s := range all {
		if s.target == nil {
			s.target = g.fewest(has, s.topic)
			has[s.target]++
		}
	}
	for _, s := range all {
		g.settle(s)
	}
}

// fewest returns the member with the fewest partitions among those that read the topic; nil when there is none.
func (g *group) fewest(has map[*member]int, name string) (least *member) {
	for _, m := range g.members {
		if m.counts[name] > 0 && (least == nil || has[m] < has[least]) {
			least = m
		}
	}
	return least
}

// settle starts the owner that a seat is to have, or makes the one go that it has.
func (g *group) settle(s *seat) {
	switch {
	case s.owned == nil && s.target != nil && s.target.ctx.Err() == nil && s.rests != g.changes:
		g.start(s)
	case s.owned != nil && s.owned.member != s.target && !s.owned.released:
		g.releaseSeat(s)
	}
}

func (g *group) start(s *seat) {
	m := s.target
	ctx, release := context.WithCancel(m.ctx)
	c := &claim{group: g, topic: s.topic, partition: s.partition, partitions: m.counts[s.topic], member: m, release: release}
	s.owned = c
	m.owners.Go(func() {
		defer release()
		shown := topic.NewClaim(c.topic, c.partition, c.partitions, func(ctx context.Context, commit topic.Commit) error {
			return m.log.commit(ctx, c, commit)
		})
		shown.Member = m.id
		err := m.own(ctx, shown)
		if err != nil && ctx.Err() == nil {
			m.cancel(err)
		}
		g.returned(s, c)
	})
}

// releaseSeat makes an owner return. One that does not within a while loses its partition all the same.
func (g *group) releaseSeat(s *seat) {
	c := s.owned
	c.released = true
	c.release()
	c.grace = time.AfterFunc(c.member.group.Rebalance, func() {
		g.of.mu.Lock()
		defer g.of.mu.Unlock()
		g.vacate(s, c)
	})
}

// returned notes that an owner has returned.
func (g *group) returned(s *seat, c *claim) {
	g.of.mu.Lock()
	defer g.of.mu.Unlock()
	if !c.released && c.member.ctx.Err() == nil {
		s.rests = g.changes // it is not run again before members come or go
	}
	g.vacate(s, c)
}

// vacate ends a claim, and gives its seat to the next.
func (g *group) vacate(s *seat, c *claim) {
	c.ended = true
	if c.grace != nil {
		c.grace.Stop()
	}
	if s.owned != c {
		return
	}
	s.owned = nil
	g.settle(s)
	g.of.forget(g)
}
