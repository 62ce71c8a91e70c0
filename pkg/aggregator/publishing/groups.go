package publishing

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"weir/internal/topic"
	"weir/pkg/aggregator/windows"
	"weir/pkg/blocklist"
	"weir/pkg/hit"
	"weir/pkg/rule"
	"weir/pkg/window"
)

// groups makes hits of group rules, which count the blocks of other rules, of what is decided. They go to the log of hits,
// to the partitions that count these groups. A hit names the block that it is of, so one that is sent again changes
// nothing. No window is written before its hits are in the log: after a crash, they are made again from what it was.
type groups struct {
	list   *List
	number int // of the partition
	rules  func() *rule.Set

	windows *windows.Set // of the partition

	by       *groupRules
	gathered []groupHit // to be sent
	source   string
	position int64
	writer   *hit.Writer
}

// groupRules are a set of rules.
type groupRules struct {
	set   *rule.Set
	judge *rule.Judge // nil where no rule counts blocks
	names []string
	of    []uint64
}

// A groupHit is a hit of a group rule.
type groupHit struct {
	by        *groupRules
	partition int
	of        member
	number    int // of the rule
	from      int64
	gone      bool
	share     uint64 // of the traffic, where that is known
	shares    bool
}

// A member is the block of an address in a group. Of several hits with the same, the last one counts.
type member struct {
	rule, key string
	value, id uint64
}

// begin has the hits come from another source: one of before may have got further than is known.
func (g *groups) begin() {
	var id [12]byte
	rand.Read(id[:])
	g.source, g.position, g.by, g.gathered = fmt.Sprintf("blocks/%s/%d", hex.EncodeToString(id[:]), g.number), 0, nil, nil
}

// counts reports whether any rule counts blocks.
func (g *groups) counts() bool {
	if g.list.config.Hits == nil || g.rules == nil {
		return false
	}
	if set := g.rules(); g.by == nil || set != g.by.set {
		g.by = &groupRules{set: set}
		if set.CountsBlocks() {
			g.by.judge, g.by.of, g.writer = set.NewJudge(), set.ValuesOf(), hit.NewWriter()
			for _, r := range set.Rules {
				g.by.names = append(g.by.names, r.Name)
			}
		}
	}
	return g.by.judge != nil
}

// block gathers the hits of a window's block that began or moved; gone says that it is none, or was lifted.
func (g *groups) block(w *windows.Window, from, first int64, level int, gone bool) {
	if w.Rule.Spec == nil || !g.counts() {
		return
	}
	name, key := w.Rule.Name, w.Key()
	block := rule.BlockOf{Rule: w.Rule.Spec, Key: key, ID: blocklist.ID(name, key, first, level), From: from, Shadow: w.Rule.Spec.Mode == rule.Shadow}
	g.gather(g.by.judge.Blocks(&block), from, gone)
}

// passed gathers the hits of the groups above, of what the last hit of a window passes on.
func (g *groups) passed(w *windows.Window) {
	passed := w.State.Passed()
	if len(passed) == 0 || w.Rule.Spec == nil || !g.counts() {
		return
	}
	for _, m := range passed {
		g.gather(g.by.judge.Above(w.Rule.Spec, m), m.At, m.Gone)
	}
}

func (g *groups) gather(all []rule.GroupHit, from int64, gone bool) {
	for _, h := range all {
		spec := g.by.set.Rules[h.Rule]
		one := groupHit{by: g.by, partition: hit.Partition(spec.Name, h.Key, g.list.config.Partitions), of: member{spec.Name, string(h.Key), h.Value, h.ID},
			number: h.Rule, from: from, gone: gone}
		if spec.GuardsTraffic() && !gone {
			one.share, one.shares = g.windows.Traffic.Share(spec.Name, h.Key, from, g.list.config.Partitions)
		}
		g.gathered = append(g.gathered, one)
	}
}

// began gathers the hits of an outcome's block.
func (g *groups) began(w *windows.Window, o window.Outcome) {
	g.block(w, o.From, o.First, o.FirstLevel, o.Event == window.Undone)
}

// send sends what is gathered, in one message for each partition of the log. Each of many late hits may move a block a
// little, so only the last hit of a member is sent.
func (g *groups) send(ctx context.Context, p *post) error {
	if len(g.gathered) == 0 {
		return nil
	}
	last := make(map[member]int, len(g.gathered))
	for i := range g.gathered {
		last[g.gathered[i].of] = i
	}
	all := make([]groupHit, 0, len(last))
	for i := range g.gathered {
		if last[g.gathered[i].of] == i {
			all = append(all, g.gathered[i])
		}
	}
	slices.SortStableFunc(all, func(a, b groupHit) int { return a.partition - b.partition })

	for len(all) > 0 {
		value, n := g.batch(all)
		if value != nil {
			if err := p.sendHits(ctx, topic.Message{Partition: all[0].partition, Value: value}); err != nil {
				return err
			}
		}
		all = all[n:]
	}
	g.gathered = g.gathered[:0]
	return nil
}

// batch makes a batch of the first hits of some, which are of one partition and one set of rules, and returns how many
// they are. It is nil where no batch can have them.
func (g *groups) batch(some []groupHit) ([]byte, int) {
	first := &some[0]
	g.writer.ResetValues(first.by.names, first.by.of)
	clock, n := g.list.config.Now().UnixMilli(), 0
	for ; n < len(some); n++ {
		h := &some[n]
		if h.partition != first.partition || h.by != first.by {
			break
		}
		if key := []byte(h.of.key); g.writer.Fits(2 * hit.Need(h.of.rule, key)) {
			if h.shares {
				g.writer.AddShare(h.number, key, h.from, h.share)
			}
			g.writer.AddMember(h.number, key, h.from, h.of.value, h.of.id, h.gone)
			clock = max(clock, h.from) // no block is ahead: the hit that began it was not
		} else if g.writer.Len() > 0 {
			break
		} // else no key is that long
	}
	if g.writer.Len() == 0 {
		return nil, n
	}

	head := hit.Header{Source: g.source, From: g.position, To: g.position + 1, Clock: clock, Fingerprint: first.by.set.Fingerprint()}
	batch, err := g.writer.Append(nil, head)
	if err != nil {
		return nil, n // no header is like that
	}
	g.position++
	return batch, n
}

// sendHits sends hits of group rules.
func (p *post) sendHits(ctx context.Context, message topic.Message) error {
	of := p.receipt(1)
	p.owed = p.sent
	message.Done = func(_ int64, err error) { p.done(of, err) }
	if err := p.list.config.Hits.Send(ctx, message); err != nil {
		return fmt.Errorf("the hits of groups: %w: %w", ErrSend, err)
	}
	return nil
}

// mostNamed is how many members of a group an entry names.
const mostNamed = 20

// membersOf names the addresses whose blocks led to the block of a group: 6 blocked addresses: 203.0.113.1, …
func membersOf(w *windows.Window, v *windows.Verdict) string {
	if !w.Rule.Policy.CountsMembers() || w.Rule.Spec == nil {
		return ""
	}
	if v.Lifted {
		if !w.State.HasMembers() {
			return "" // a person has unblocked the group itself
		}
		if w.Rule.Spec.Above != "" {
			return "too many of its addresses were unblocked, or lie in networks that " + w.Rule.Spec.Above + " blocks"
		}
		return "too many of its addresses were unblocked"
	}
	per := w.Rule.Policy.Longest()
	for _, l := range w.Rule.Spec.Limits {
		if l.Text == v.Limit {
			per = l.Per
			break
		}
	}
	values := w.Rule.Policy.Members(&w.State, v.From, per.Milliseconds())
	if len(values) == 0 {
		return ""
	}
	var names []string
	for _, value := range values[:min(mostNamed, len(values))] {
		names = append(names, rule.MemberText(value))
	}
	text := fmt.Sprintf("%d blocked addresses: %s", len(values), strings.Join(names, ", "))
	if more := len(values) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if v.Guarded == windows.MostShare {
		text += "; not refused, because the network sent more of the last hour's requests than the guard's most_share"
	}
	return text
}
