package kafka

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"
	"sync"

	kafkago "github.com/segmentio/kafka-go"
)

// sticky shares partitions evenly and moves as few as possible: each member sends the partitions that it had when it
// joins. While members want all partitions for themselves (topic.Group, Alone), one of these gets them.
//
// A partition moves in two steps, so that all others can go on. A member joins with the partitions whose owners run. A
// generation gives none of these to another member: it only takes partitions away from a member that has too many. When
// their owners have returned, that member joins again without them, and the next generation gives them to others.
//
// The protocol has another name than that of earlier versions, whose members release everything before they join, and
// give partitions away in one step. The group does not take members of both, so new ones wait for the last old one.
type sticky struct {
	held  func() map[topicPartition]bool
	alone func() bool // whether the member wants all partitions; nil never does

	mu      sync.Mutex
	had     had
	claimed map[topicPartition]bool // held, when the member last asked to join
}

// had is the share of a member in a generation, and the partitions whose owners run, in the form that is sent.
type had struct {
	Generation int32            `json:"generation"`
	Partitions map[string][]int `json:"partitions"`
	Held       map[string][]int `json:"held,omitempty"`
	Alone      bool             `json:"alone,omitempty"`   // it wants all partitions
	Process    string           `json:"process,omitempty"` // random: members of several groups may be in one process
}

// process is the same in all groups, so that one process gets the partitions of all of them.
var process = rand.Text()

// keep remembers a generation's share for the next join. It returns the partitions that were held at the last one.
func (s *sticky) keep(generation *kafkago.Generation) (claimed map[topicPartition]bool) {
	partitions := map[string][]int{}
	for topic, assignments := range generation.Assignments {
		for _, assignment := range assignments {
			partitions[topic] = append(partitions[topic], assignment.ID)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.had.Generation, s.had.Partitions = generation.ID, partitions
	return s.claimed
}

func (s *sticky) ProtocolName() string { return "weir-cooperative" }

func (s *sticky) UserData() ([]byte, error) {
	held, alone := s.held(), s.wantsAll()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claimed = held
	s.had.Alone, s.had.Process = alone, process
	s.had.Held = map[string][]int{}
	for _, at := range slices.SortedFunc(maps.Keys(held), compareTopicPartition) {
		s.had.Held[at.topic] = append(s.had.Held[at.topic], at.partition)
	}
	return json.Marshal(s.had)
}

func (s *sticky) wantsAll() bool { return s.alone != nil && s.alone() }

// outdated reports whether the member now wants the opposite of what it wanted when it joined.
func (s *sticky) outdated() bool {
	alone := s.wantsAll()
	s.mu.Lock()
	defer s.mu.Unlock()
	return alone != s.had.Alone
}

type topicPartition struct {
	topic     string
	partition int
}

// share is one member's share while partitions are being assigned.
type share struct {
	member kafkago.GroupMember
	had    had
	has    []topicPartition
}

// AssignGroups gives every partition to a member that reads its topic: to the member that had it last while that has no
// more than its share, otherwise to the one with the fewest.
func (s *sticky) AssignGroups(members []kafkago.GroupMember, partitions []kafkago.Partition) kafkago.GroupMemberAssignments {
	shares := newShares(members)
	free := map[topicPartition]bool{}
	for _, p := range partitions {
		free[topicPartition{p.Topic, p.ID}] = true
	}

	gather(shares, free)
	keepShares(shares, free)

	// Sorted, because maps have no order: the same members get the same shares.
	for _, p := range slices.SortedFunc(maps.Keys(free), compareTopicPartition) {
		if to := smallest(shares, p.topic); to != nil {
			to.has = append(to.has, p)
		}
	}

	withhold(shares)

	assignments := kafkago.GroupMemberAssignments{}
	for _, share := range shares {
		slices.SortFunc(share.has, compareTopicPartition)
		byTopic := map[string][]int{}
		for _, p := range share.has {
			byTopic[p.topic] = append(byTopic[p.topic], p.partition)
		}
		assignments[share.member.ID] = byTopic
	}

	return assignments
}

// newShares returns the members with the latest generation first: when two claim that they had a partition, the later
// one is right.
func newShares(members []kafkago.GroupMember) []*share {
	var shares []*share
	for _, m := range members {
		s := &share{member: m}
		if json.Unmarshal(m.UserData, &s.had) != nil {
			s.had = had{} // of another version: begin without it
		}
		shares = append(shares, s)
	}
	slices.SortFunc(shares, func(a, b *share) int {
		return cmp.Or(cmp.Compare(b.had.Generation, a.had.Generation), cmp.Compare(a.member.ID, b.member.ID))
	})
	return shares
}

// gather gives the free partitions to one of the members that want all of them, if there are any. The others have none
// after that, and no longer want them; so it stays the same one.
func gather(shares []*share, free map[topicPartition]bool) {
	var to *share
	for _, s := range shares {
		if s.had.Alone && (to == nil || s.had.Process < to.had.Process) {
			to = s
		}
	}
	if to == nil {
		return
	}
	for p := range free {
		if slices.Contains(to.member.Topics, p.topic) {
			to.has = append(to.has, p)
			delete(free, p)
		}
	}
}

// keepShares leaves members their partitions, up to an even share, and removes these from the free ones. As many
// members as the division leaves a remainder may keep one more.
func keepShares(shares []*share, free map[topicPartition]bool) {
	if len(shares) == 0 {
		return
	}
	even, over := len(free)/len(shares), len(free)%len(shares)
	for _, s := range shares {
		for _, p := range s.claims() {
			if !free[p] || !slices.Contains(s.member.Topics, p.topic) {
				continue
			}

			// Up to an even share, and one more while there is a remainder: the others must get theirs.
			if len(s.has) >= even {
				if over == 0 || len(s.has) > even {
					break
				}
				over--
			}

			s.has = append(s.has, p)
			delete(free, p)
		}
	}
}

// withhold takes partitions out of the shares that other members still hold. If two members hold one, the one with the
// later generation is right; the shares are in that order.
func withhold(shares []*share) {
	holders := map[topicPartition]*share{}
	for _, s := range shares {
		for _, at := range listed(s.had.Held) {
			if holders[at] == nil {
				holders[at] = s
			}
		}
	}
	for _, s := range shares {
		s.has = slices.DeleteFunc(s.has, func(at topicPartition) bool { return holders[at] != nil && holders[at] != s })
	}
}

func (s *share) claims() []topicPartition { return listed(s.had.Partitions) }

func listed(byTopic map[string][]int) []topicPartition {
	var claims []topicPartition
	for topic, partitions := range byTopic {
		for _, partition := range partitions {
			claims = append(claims, topicPartition{topic, partition})
		}
	}
	slices.SortFunc(claims, compareTopicPartition)
	return claims
}

func compareTopicPartition(a, b topicPartition) int {
	return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
}

// smallest returns the member with the fewest partitions among those that read the topic.
func smallest(shares []*share, topic string) *share {
	var least *share
	for _, s := range shares {
		if slices.Contains(s.member.Topics, topic) && (least == nil || len(s.has) < len(least.has)) {
			least = s
		}
	}
	return least
}
