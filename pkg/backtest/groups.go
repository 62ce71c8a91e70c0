package backtest

import (
	"math"

	"weir/pkg/blocklist"
	"weir/pkg/rule"
	"weir/pkg/window"
)

// groups finds what the blocks of a set's rules are to its group rules. The requests of each network that a group rule may
// block are hits of the network, too: they do not count, and show what its block would have refused.
type groups struct {
	set   *rule.Set
	judge *rule.Judge
	table *keyTable
	keys  []string // by their numbers

	traffic int // the rule whose hits are all requests; -1 for none
}

func newGroups(set *rule.Set, table *keyTable) *groups {
	if !set.CountsBlocks() {
		return nil
	}
	return &groups{set: set, judge: set.NewJudge(), table: table, traffic: set.Traffic()}
}

// follow has the groups count what an outcome says of the blocks of a key.
func (v *variant) follow(number int, a *account, o window.Outcome) {
	switch {
	case o.Event == window.Broke || o.Event == window.Moved:
		if o.Event == window.Moved {
			for _, gone := range a.state.Gone() {
				v.member(number, a, gone)
			}
		}
		for _, other := range a.state.Others() {
			v.member(number, a, other)
		}
		v.member(number, a, o)
	case o.Event == window.Blocked && o.Others:
		for _, other := range a.state.Others() {
			v.member(number, a, other)
		}
	}
}

// member has the groups count one block of a key.
func (v *variant) member(number int, a *account, o window.Outcome) {
	g, key := v.groups, v.groups.keys[number]
	r := g.set.Rules[a.rule]
	block := rule.BlockOf{Rule: r, Key: key, ID: blocklist.ID(r.Name, key, o.First, o.FirstLevel), From: o.From, Shadow: r.Mode == rule.Shadow}
	v.countMembers(g.judge.Blocks(&block), o.From, o.Event == window.Undone)
}

// countMembers counts hits of groups in their networks.
func (v *variant) countMembers(hits []rule.GroupHit, at int64, gone bool) {
	type counted struct {
		account *account
		key     string
		of      window.MemberBlock
	}
	g := v.groups
	var all []counted // the hits are valid until others are made
	for _, h := range hits {
		if number, known := g.table.lookup(hashKey(h.Rule, h.Key), h.Rule, h.Key); known {
			all = append(all, counted{v.account(number), g.keys[number], window.MemberBlock{At: at, Value: h.Value, ID: h.ID, Gone: gone}})
		}
	}
	for _, one := range all {
		v.countMember(one.account, one.key, one.of)
		for _, m := range one.account.state.Passed() {
			v.countMembers(v.groups.judge.Above(v.groups.set.Rules[one.account.rule], m), m.At, m.Gone)
		}
	}
}

// countMember counts the block of an address in its network.
func (v *variant) countMember(a *account, key string, m window.MemberBlock) {
	t := &v.rules[a.rule]
	if v.groups.set.Rules[a.rule].PassesOn() && !m.Gone {
		v.members[m.Value] = true
	}
	if !m.Gone {
		v.sends(a, key, m.At)
	}
	o := t.policy.HitMember(&a.state, m)
	if a.offence == nil {
		if o.Event != window.Broke {
			return
		}
		a.offence = &offence{first: o.From, limit: o.Limit, group: &groupOffence{members: t.policy.Members(&a.state, o.From, t.limits[o.Limit].Per.Milliseconds()),
			blocked: map[uint64]bool{}, refused: map[uint64]bool{}}}
		for _, value := range a.state.Members(o.From, window.MaxTime) {
			a.offence.group.blocked[value] = true
		}
	}
	if o.Event == window.Broke {
		a.offence.group.begins(v.trafficOf(a, o.From))
	}
	f := a.offence
	if !m.Gone {
		f.group.blocked[m.Value] = true
	}
	f.peak.now = int64(len(t.policy.Members(&a.state, m.At, t.limits[f.limit].Per.Milliseconds())))
	f.peak.most = max(f.peak.most, f.peak.now)
	if o.Event == window.Moved {
		f.blocks -= int64(len(a.state.Gone()))
	}
	switch {
	case o.Event == window.Broke:
		f.blocks++
	case o.Event == window.Moved && f.blocks == 1:
		f.first, f.limit = o.From, o.Limit
		f.group.members = t.policy.Members(&a.state, o.From, t.limits[o.Limit].Per.Milliseconds())
	case o.Event == window.Undone:
		f.group.undo()
		if f.blocks--; f.blocks == 0 {
			a.offence = nil
		}
	}
}

// network is a request of a network, and reports whether it is refused.
func (v *variant) network(a *account, t *tally, at int64, address uint64) (refused bool) {
	t.requests++
	a.requests++
	if a.offence == nil {
		return false
	}
	from, until, _, blocked := a.state.Block()
	if refused = blocked && from <= at && at < until && !a.offence.group.guarded; refused {
		a.offence.refused++
		if g := a.offence.group; len(g.refused) < mostRefused || g.refused[address] {
			g.refused[address] = true
		}
	}
	if v.timelines != nil {
		v.timelines.hit(a.offence, at, refused)
	}
	return refused
}

// mostRefused is how many different addresses are counted that the block of a network refuses.
const mostRefused = 1 << 16

// A groupOffence is what a network adds to an offence.
type groupOffence struct {
	members []uint64        // that led to the first block
	blocked map[uint64]bool // addresses that were ever blocked themselves
	refused map[uint64]bool // those that sent requests while the network was blocked
	guarded bool            // the last block refuses no one
	shown   int64           // blocks that refuse no one
	share   float64         // of an hour's requests at a block, the largest; 0 if it is not known
}

// A GroupReport is the addresses of a network that a group rule blocks.
type GroupReport struct {
	Members   []string `json:"members"`   // those that led to the first block, the first twenty
	Count     int      `json:"count"`     // how many these were
	Addresses int      `json:"addresses"` // that sent requests while the network was blocked
	Innocent  int      `json:"innocent"`  // of them, those that were never blocked themselves

	Share   float64 `json:"share,omitempty"`   // of an hour's requests, in percent; with the guard most_share
	Guarded int64   `json:"guarded,omitempty"` // blocks that refuse no one, by that guard
}

const mostMembers = 20

// report is that of the group; blocked has further addresses that were ever blocked.
func (g *groupOffence) report(blocked map[uint64]bool) *GroupReport {
	if g == nil {
		return nil
	}
	r := &GroupReport{Members: []string{}, Count: len(g.members), Addresses: len(g.refused), Share: math.Round(g.share*1e4) / 100, Guarded: g.shown}
	for _, value := range g.members[:min(mostMembers, len(g.members))] {
		r.Members = append(r.Members, rule.MemberText(value))
	}
	for value := range g.refused {
		if !g.blocked[value] && !blocked[value] {
			r.Innocent++
		}
	}
	return r
}
