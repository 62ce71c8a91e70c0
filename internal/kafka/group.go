package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/internal/sleep"
	"weir/internal/topic"
)

const (
	heartbeatEvery = 500 * time.Millisecond // also how late a member may learn that others came or went
	rejoinPause    = 500 * time.Millisecond
	leavePatience  = 3 * time.Second // for leaving, once all partitions were given up
	watchEvery     = time.Second
	aloneEvery     = 100 * time.Millisecond // how late a member may notice that it wants all partitions
)

// RunGroup is a member of the group until the context is done (it returns nil then), an owner returns an error, or a
// topic has the wrong number of partitions (ErrPartitions). It runs an owner for each partition that it gets, each in
// its own goroutine, and returns when all of them have.
//
// When members come or go, a partition stays where it was as far as the members' shares allow, and its owner goes on
// meanwhile. A partition that has to move is first released: its owner returns, and only then another member gets it
// (sticky). An owner may take as long as Rebalance for its checkpoint, also when that is longer than Session. A member
// whose coordinator dies waits for the next one and keeps its place, with its partitions. RunGroup waits for a topic
// that does not exist: joining would make Kafka create it with one partition. A member that was suspended past its
// session learns of it at its next commit or heartbeat.
func (c *Client) RunGroup(ctx context.Context, group topic.Group, own topic.Owner) error {
	m, err := c.newMember(group, own)
	if err != nil {
		return err
	}
	defer m.place.close()

	// Until the member begins to leave; its cause is the reason.
	staying, cancel := context.WithCancelCause(ctx)
	m.cancel = cancel
	defer cancel(nil)
	if err := m.awaitTopics(staying); err != nil {
		cancel(err)
		return reason(ctx, staying)
	}

	// Not of ctx: the member needs its coordinator to leave the group.
	dialing, endDialing := context.WithCancel(context.WithoutCancel(ctx))
	defer endDialing()
	m.coordinator = newCoordinator(c, group, m.place, endDialing)
	if m.joined, err = kafkago.NewConsumerGroup(m.config(dialing)); err != nil {
		return fmt.Errorf("joining group %s: %w", group.Name, err)
	}

	// The member keeps its place until its owners have returned, so that no other member gets a partition too early.
	present, depart := context.WithCancel(context.WithoutCancel(ctx))
	defer depart()
	go func() {
		<-staying.Done()
		m.holdings.close()
		depart()
	}()
	for present.Err() == nil {
		m.nextGeneration(staying, present)
	}

	// A member that leaves is replaced at once; one that only ends is missed when its session is over.
	m.leave()
	return reason(ctx, staying)
}

// A member is one run of a group.
type member struct {
	client *Client
	group  topic.Group
	own    topic.Owner
	cancel context.CancelCauseFunc // has the member leave

	joined      *kafkago.ConsumerGroup
	closing     sync.Once
	closed      chan struct{} // when the member has left the group, or could not reach it
	coordinator *coordinator
	place       *place
	sticky      *sticky
	holdings    *holdings
	partitions  map[string]int // of the topics, as last fetched
	trouble     trouble        // with joining
	id          string         // in the last generation; empty when others may have had our partitions since
}

func (c *Client) newMember(group topic.Group, own topic.Owner) (*member, error) {
	if group.Name == "" || len(group.Topics) == 0 {
		return nil, errors.New("a group needs a name and a topic")
	}
	group.Session = cmp.Or(group.Session, c.config.Session, 9*time.Second)
	group.Rebalance = cmp.Or(group.Rebalance, time.Minute)

	m := &member{client: c, group: group, own: own, closed: make(chan struct{}), holdings: newHoldings(group.Rebalance), partitions: map[string]int{}}
	m.sticky = &sticky{held: m.holdings.held, alone: group.Alone}
	place, err := takePlace(c.config.Places, group.Name)
	if err != nil {
		c.errorLog.note("group", fmt.Errorf("group %s: a process that is killed is replaced only after its session: %w", group.Name, err))
	}
	m.place = place
	return m, nil
}

// reason returns why a member did not stay; nil if the caller ended it.
func reason(caller, staying context.Context) error {
	if caller.Err() != nil {
		return nil //nolint:nilerr // that the caller wants no more is no fault
	}
	return context.Cause(staying)
}

// config is that of kafka-go's part of the member, whose connections are made until the context is done.
func (m *member) config(dialing context.Context) kafkago.ConsumerGroupConfig {
	dial := func(context.Context, string, string) (net.Conn, error) { return m.coordinator.dial(dialing) }
	return kafkago.ConsumerGroupConfig{
		ID:                m.group.Name,
		Topics:            slices.Collect(maps.Keys(m.group.Topics)),
		Brokers:           []string{"coordinator:0"}, // the dialer connects to the coordinator, for any address
		Dialer:            &kafkago.Dialer{ClientID: clientID, DialFunc: dial, SASLMechanism: m.client.login},
		GroupBalancers:    []kafkago.GroupBalancer{m.sticky},
		HeartbeatInterval: min(heartbeatEvery, m.group.Session/3),
		SessionTimeout:    m.group.Session,
		RebalanceTimeout:  m.group.Rebalance,
		JoinGroupBackoff:  rejoinPause,
	}
}

// awaitTopics waits until all topics exist, and checks their partitions.
func (m *member) awaitTopics(ctx context.Context) error {
	var t trouble
	for {
		err := m.countPartitions(ctx)
		if err == nil || errors.Is(err, topic.ErrPartitions) || ctx.Err() != nil {
			return err
		}
		m.client.errorLog.note("group", fmt.Errorf("joining group %s: %w", m.group.Name, err))
		sleep.For(ctx, t.another(time.Now()))
	}
}

func (m *member) countPartitions(ctx context.Context) error {
	for name, want := range m.group.Topics {
		found, err := m.client.Partitions(ctx, name)
		if err != nil {
			return err
		}
		if want != 0 && found != want {
			return otherPartitions(name, found, want)
		}
		m.partitions[name] = found
	}
	return nil
}

// nextGeneration waits for a share of the partitions and keeps it until the group goes on. Owners run on meanwhile.
func (m *member) nextGeneration(staying, present context.Context) {
	next, err := m.joined.Next(present)
	if err != nil {
		m.notJoined(staying, err)
		return
	}

	// Counted again, because a change of the partitions may be the reason for this generation.
	if err := m.awaitTopics(staying); err != nil {
		m.cancel(err)
	}

	if m.trouble.times > 0 {
		m.client.errorLog.over("group", "joined group "+m.group.Name, m.trouble.since)
		m.trouble = trouble{}
	}

	m.place.keep(next.MemberID)
	if place := m.group.Place; place != nil {
		place(true)
		defer place(false)
	}
	served := make(chan struct{})
	next.Start(func(generation context.Context) {
		defer close(served)
		m.serve(staying, generation, next)
	})

	select {
	case <-served:
	case <-present.Done():
		m.close()
		<-served
	}
}

// notJoined gives all partitions up, and logs why there is no generation. It is no error when other members join at the
// same time, or when a coordinator has just started; kafka-go tries again.
func (m *member) notJoined(ctx context.Context, err error) {
	if errors.Is(err, kafkago.RebalanceInProgress) {
		return // the member has kept its place
	}
	m.id = ""
	m.holdings.lose()
	if ctx.Err() != nil {
		return
	}

	m.trouble.another(time.Now())
	if m.trouble.settles(err) {
		return
	}
	if errors.Is(err, kafkago.InconsistentGroupProtocol) {
		err = errors.New("it has members of another version, or of another program; this one joins when these have ended")
	}
	m.client.errorLog.note("group", fmt.Errorf("joining group %s: %w", m.group.Name, m.client.cause(ctx, err)))
}

// settles reports an error that passes by itself: a coordinator starts, or another broker becomes it. It is not worth a
// line in the log, unless it takes long.
func (t *trouble) settles(err error) bool {
	return isSettling(err) && time.Since(t.since) < requestTimeout
}

// isSettling reports an error of a coordinator that is starting, or of a broker that no longer is the coordinator.
func isSettling(err error) bool {
	return errors.Is(err, kafkago.GroupLoadInProgress) || errors.Is(err, kafkago.GroupCoordinatorNotAvailable) || errors.Is(err, kafkago.NotCoordinatorForGroup)
}

// serve runs the owners of a generation's share. It returns when the generation has ended, or should end: because the
// number of partitions has changed, because others wait for partitions whose owners have returned now, or because this
// member wants all partitions, or no longer does. kafka-go joins the next one then.
func (m *member) serve(staying, generation context.Context, next *kafkago.Generation) {
	commits := newCommitter(m.client, m.group.Name, next)
	owed := m.adopt(next, commits)
	if generation.Err() != nil {
		return // over already, so kafka-go would not wait for us
	}

	waiting := m.share(next) // the owners that are to begin
	for at := range m.holdings.kept() {
		delete(waiting, at)
	}
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	alone, stop := m.aloneTicker()
	defer stop()
	for {
		for at, partitions := range waiting {
			if m.holdings.begin(at, partitions, commits, m.work) {
				delete(waiting, at)
			}
		}
		if len(owed) > 0 && staying.Err() == nil && m.holdings.without(owed) {
			return
		}

		select {
		case <-generation.Done():
			return
		case <-m.holdings.returned:
			continue
		case <-alone:
			if staying.Err() == nil && m.sticky.outdated() && len(m.holdings.held()) > 0 {
				return
			}
			continue
		case <-ticker.C:
		}
		changed, err := m.changed(staying)
		if err != nil {
			m.cancel(err)
		}
		if changed {
			return
		}
	}
}

// aloneTicker returns a channel that says when to ask whether the member wants all partitions; nil if it never does.
func (m *member) aloneTicker() (c <-chan time.Time, stop func()) {
	if m.group.Alone == nil {
		return nil, func() {}
	}
	ticker := time.NewTicker(aloneEvery)
	return ticker.C, ticker.Stop
}

// adopt applies a generation to the owners that run. It returns the partitions that this member had when it joined, and
// that others are to have: they get them when it joins again without.
func (m *member) adopt(next *kafkago.Generation, commits *committer) (owed []topicPartition) {
	share := m.share(next)
	for at := range m.sticky.keep(next) {
		if _, ours := share[at]; !ours {
			owed = append(owed, at)
		}
	}

	// A member that was always there under one id has joined all generations with its partitions, so that no other member
	// has had them.
	if m.id == next.MemberID {
		m.holdings.adopt(share, commits)
	} else {
		m.holdings.lose()
	}
	m.id = next.MemberID
	return owed
}

// share returns the partitions of a generation, each with the number of partitions of its topic.
func (m *member) share(next *kafkago.Generation) map[topicPartition]int {
	share := map[topicPartition]int{}
	for name, assignments := range next.Assignments {
		for _, assignment := range assignments {
			share[topicPartition{name, assignment.ID}] = m.partitions[name]
		}
	}
	return share
}

func (m *member) work(ctx context.Context, claim *topic.Claim) {
	if err := m.own(ctx, claim); err != nil && ctx.Err() == nil {
		m.cancel(err)
	}
}

// changed reports whether a topic with any number of partitions has another number of them. It is an error for a topic
// that must have a certain number.
func (m *member) changed(ctx context.Context) (changed bool, err error) {
	for name, want := range m.group.Topics {
		found, failed := m.client.Partitions(ctx, name)
		switch {
		case failed != nil || found == m.partitions[name]:
		case want == 0:
			return true, err
		default:
			err = otherPartitions(name, found, want)
		}
	}
	return false, err
}

// close begins to leave: it ends the generation, and the member leaves the group once its owners have returned.
func (m *member) close() {
	m.closing.Do(func() {
		go func() {
			_ = m.joined.Close() // an error changes nothing: the group notices by itself
			close(m.closed)
		}()
	})
}

// leave waits until the member has left the group. It does not wait long for an unreachable group: that notices by
// itself after a session.
func (m *member) leave() {
	m.close()
	select {
	case <-m.closed:
	case <-time.After(leavePatience):
	}
	m.coordinator.close()
	<-m.closed
}
