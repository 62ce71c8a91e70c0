package kafka

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
)

// TestStickyModel lets members come and go, and checks the invariants of every assignment.
func TestStickyModel(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		partitions := somePartitions(1 + random.IntN(20))
		owned := map[string]had{}
		for generation := range int32(10) {
			members := someMembers(random, owned)
			assigned := new(sticky).AssignGroups(members, partitions)
			moved := checkShares(t, members, partitions, assigned)
			if again := new(sticky).AssignGroups(rejoining(members, assigned, generation), partitions); fmt.Sprint(again) != fmt.Sprint(assigned) {
				t.Fatalf("seed %d: the same members got %v and then %v", seed, assigned, again)
			}
			if least := mustMove(members, partitions, owned); moved != least {
				t.Fatalf("seed %d: %d partitions moved where %d had to", seed, moved, least)
			}
			owned = map[string]had{}
			for id, topics := range assigned {
				owned[id] = had{Generation: generation, Partitions: topics}
			}
		}
	}
}

// TestStickyHolders lets members come and go while others are slow to release partitions. No partition goes to a member
// while another holds it, and once nothing is released any more the shares are even.
func TestStickyHolders(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 2))
		partitions := somePartitions(1 + random.IntN(20))
		owned := map[string]had{}
		for generation := range int32(30) {
			comeAndGo := generation < 20
			members := someMembers(random, owned)
			if !comeAndGo {
				members = membersOf(owned)
			}
			assigned := new(sticky).AssignGroups(members, partitions)
			holders := map[int]string{}
			for _, m := range members {
				for _, p := range owned[m.ID].Held["hits"] {
					holders[p] = m.ID
				}
			}
			next := map[string]had{}
			for _, m := range members {
				var holds []int
				for _, p := range assigned[m.ID]["hits"] {
					if holder := holders[p]; holder != "" && holder != m.ID {
						t.Fatalf("seed %d: %s gets partition %d, which %s holds", seed, m.ID, p, holder)
					}
					holds = append(holds, p)
				}
				for _, p := range owned[m.ID].Held["hits"] {
					if !slices.Contains(holds, p) && comeAndGo && random.IntN(2) == 0 {
						holds = append(holds, p) // its owner has not returned yet
					}
				}
				next[m.ID] = had{Generation: generation, Partitions: assigned[m.ID], Held: map[string][]int{"hits": holds}}
			}
			owned = next
		}
		assigned := new(sticky).AssignGroups(membersOf(owned), partitions)
		checkShares(t, membersOf(owned), partitions, assigned)
	}
}

// TestStickyAlone lets members come and go, and some want all partitions while they hold any. No partition goes to
// a member while another holds it, and a member that is the only one to want them has all partitions after three rounds.
// Members of earlier versions want nothing.
func TestStickyAlone(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 3))
		partitions := somePartitions(1 + random.IntN(20))
		owned := map[string]had{}
		for generation := range int32(20) {
			members := someMembers(random, owned)
			for round := range int32(4) {
				assigned := new(sticky).AssignGroups(members, partitions)
				wishes := 0
				next := map[string]had{}
				for _, m := range members {
					mine := assigned[m.ID]["hits"]
					for other, of := range owned {
						for _, p := range of.Held["hits"] {
							if other != m.ID && slices.Contains(mine, p) && slices.ContainsFunc(members, func(m kafkago.GroupMember) bool { return m.ID == other }) {
								t.Fatalf("seed %d: %s gets partition %d, which %s holds", seed, m.ID, p, other)
							}
						}
					}
					h := had{Generation: generation*4 + round, Partitions: assigned[m.ID], Held: map[string][]int{"hits": mine}, Process: m.ID}
					if round == 0 {
						h.Alone = random.IntN(3) == 0
					} else {
						h.Alone = owned[m.ID].Alone
					}
					h.Alone = h.Alone && len(mine) > 0
					if h.Alone {
						wishes++
					}
					next[m.ID] = h
				}
				owned = next
				members = membersOf(owned)
				if round < 3 {
					continue
				}
				if wishes > 1 {
					t.Fatalf("seed %d: %d members want all partitions", seed, wishes)
				}
				for id, h := range owned {
					if h.Alone && len(assigned[id]["hits"]) != len(partitions) {
						t.Fatalf("seed %d: %s wants all of %d partitions and has %d", seed, id, len(partitions), len(assigned[id]["hits"]))
					}
				}
				if wishes == 0 {
					checkShares(t, members, partitions, assigned)
				}
			}
		}
	}
}

func membersOf(owned map[string]had) (members []kafkago.GroupMember) {
	for _, id := range slices.Sorted(maps.Keys(owned)) {
		data, _ := json.Marshal(owned[id])
		members = append(members, kafkago.GroupMember{ID: id, Topics: []string{"hits"}, UserData: data})
	}
	return members
}

func somePartitions(count int) []kafkago.Partition {
	var all []kafkago.Partition
	for i := range count {
		all = append(all, kafkago.Partition{Topic: "hits", ID: i})
	}
	return all
}

func someMembers(random *rand.Rand, owned map[string]had) []kafkago.GroupMember {
	var members []kafkago.GroupMember
	for i := range 6 {
		if i > 0 && random.IntN(2) == 0 {
			continue
		}
		id := fmt.Sprintf("member-%d", i)
		data, _ := json.Marshal(owned[id])
		members = append(members, kafkago.GroupMember{ID: id, Topics: []string{"hits"}, UserData: data})
	}
	return members
}

func rejoining(members []kafkago.GroupMember, assigned kafkago.GroupMemberAssignments, generation int32) []kafkago.GroupMember {
	var all []kafkago.GroupMember
	for _, m := range members {
		m.UserData, _ = json.Marshal(had{Generation: generation, Partitions: assigned[m.ID]})
		all = append(all, m)
	}
	return all
}

// checkShares fails unless each partition has one member and the shares are even. It counts the partitions that moved.
func checkShares(t *testing.T, members []kafkago.GroupMember, partitions []kafkago.Partition, assigned kafkago.GroupMemberAssignments) (moved int) {
	t.Helper()
	seen := map[int]bool{}
	for _, m := range members {
		var before had
		json.Unmarshal(m.UserData, &before)
		was := map[int]bool{}
		for _, p := range before.Partitions["hits"] {
			was[p] = true
		}
		share := assigned[m.ID]["hits"]
		if even := len(partitions) / len(members); len(share) < even || len(share) > even+1 {
			t.Fatalf("%s has %d of %d partitions for %d members", m.ID, len(share), len(partitions), len(members))
		}
		for _, p := range share {
			if seen[p] {
				t.Fatalf("partition %d was given twice", p)
			}
			seen[p] = true
			if !was[p] {
				moved++
			}
		}
	}
	if len(seen) != len(partitions) {
		t.Fatalf("%d of %d partitions were given", len(seen), len(partitions))
	}
	return moved
}

// mustMove returns how many partitions cannot stay: members keep their partitions up to an even share, and as many as
// the division leaves a remainder keep one more.
func mustMove(members []kafkago.GroupMember, partitions []kafkago.Partition, owned map[string]had) int {
	even, over := len(partitions)/len(members), len(partitions)%len(members)
	stay := 0
	for _, m := range members {
		count := len(owned[m.ID].Partitions["hits"])
		stay += min(count, even)
		if count > even && over > 0 {
			over--
			stay++
		}
	}
	return len(partitions) - stay
}

// When two members claim a partition, the later generation is right; a topic without readers is not assigned.
func TestStickyEdges(t *testing.T) {
	encode := func(h had) []byte {
		data, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	members := []kafkago.GroupMember{
		{ID: "a", Topics: []string{"hits"}, UserData: encode(had{Generation: 3, Partitions: map[string][]int{"hits": {0, 1}}})},
		{ID: "b", Topics: []string{"hits", "logs"}, UserData: encode(had{Generation: 4, Partitions: map[string][]int{"hits": {1}}})},
		{ID: "c", Topics: []string{"hits"}, UserData: []byte("of another version")},
	}
	partitions := append(somePartitions(3), kafkago.Partition{Topic: "logs", ID: 0}, kafkago.Partition{Topic: "other", ID: 0})
	assigned := new(sticky).AssignGroups(members, partitions)
	want := map[string]map[string][]int{"a": {"hits": {0}}, "b": {"hits": {1}, "logs": {0}}, "c": {"hits": {2}}}
	if fmt.Sprint(assigned) != fmt.Sprint(kafkago.GroupMemberAssignments(want)) {
		t.Fatalf("assigned is %v", assigned)
	}
}
