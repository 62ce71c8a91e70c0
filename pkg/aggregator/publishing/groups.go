package publishing

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
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

	set      *rule.Set // that the rest is of
	judge    *rule.Judge
	names    []string
	of       []uint64
	source   string
	position int64
	writer   *hit.Writer
}

// A groupHit is a hit of a group rule.
type groupHit struct {
	topic.Message
	of member
}

// A member is the block of an address in a group. Of several hits with the same, the last one counts.
type member struct {
	rule, key string
	value, id uint64
}

// lastHits are the places of the last hits of members. Each of many late hits may move a block a little.
func lastHits(all []Publication) (last map[member]int) {
	for i, one := range all {
		if one.hits == nil {
			continue
		}
		if last == nil {
			last = map[member]int{}
		}
		last[one.hits.of] = i
	}
	return last
}

// begin has the hits come from another source: one of before may have got further than is known.
func (g *groups) begin() {
	var id [12]byte
	rand.Read(id[:])
	g.source, g.position, g.set = fmt.Sprintf("blocks/%s/%d", hex.EncodeToString(id[:]), g.number), 0, nil
}

// counts reports whether any rule counts blocks.
func (g *groups) counts() bool {
	if g.list.config.Hits == nil || g.rules == nil {
		return false
	}
	if set := g.rules(); set != g.set {
		g.set, g.judge, g.names, g.of = set, nil, nil, nil
		if set.CountsBlocks() {
			g.judge, g.of, g.writer = set.NewJudge(), set.ValuesOf(), hit.NewWriter()
			for _, r := range set.Rules {
				g.names = append(g.names, r.Name)
			}
		}
	}
	return g.judge != nil
}

// block appends the hits of a window's block that began or moved; gone says that it is none, or was lifted.
func (g *groups) block(to []Publication, w *windows.Window, from, first int64, level int, gone bool) []Publication {
	if w.Rule.Spec == nil || !g.counts() {
		return to
	}
	name, key := w.Rule.Name, w.Key()
	block := rule.BlockOf{Rule: w.Rule.Spec, Key: key, ID: blocklist.ID(name, key, first, level), From: from, Shadow: w.Rule.Spec.Mode == rule.Shadow}
	return g.hits(to, g.judge.Blocks(&block), from, gone)
}

// passed appends the hits of the groups above, of what the last hit of a window passes on.
func (g *groups) passed(to []Publication, w *windows.Window) []Publication {
	passed := w.State.Passed()
	if len(passed) == 0 || w.Rule.Spec == nil || !g.counts() {
		return to
	}
	for _, m := range passed {
		to = g.hits(to, g.judge.Above(w.Rule.Spec, m), m.At, m.Gone)
	}
	return to
}

func (g *groups) hits(to []Publication, all []rule.GroupHit, from int64, gone bool) []Publication {
	for _, h := range all {
		g.writer.ResetValues(g.names, g.of)
		if spec := g.set.Rules[h.Rule]; spec.GuardsTraffic() && !gone {
			if share, known := g.windows.Traffic.Share(spec.Name, h.Key, from, g.list.config.Partitions); known {
				g.writer.AddShare(h.Rule, h.Key, from, share)
			}
		}
		if !g.writer.AddMember(h.Rule, h.Key, from, h.Value, h.ID, gone) {
			continue // no key is that long
		}
		clock := max(from, g.list.config.Now().UnixMilli()) // no block is ahead: the hit that began it was not
		head := hit.Header{Source: g.source, From: g.position, To: g.position + 1, Clock: clock, Fingerprint: g.set.Fingerprint()}
		batch, err := g.writer.Append(nil, head)
		if err != nil {
			continue // no header is like that
		}
		g.position++
		name := g.names[h.Rule]
		message := topic.Message{Partition: hit.Partition(name, h.Key, g.list.config.Partitions), Value: batch}
		to = append(to, Publication{hits: &groupHit{message, member{name, string(h.Key), h.Value, h.ID}}})
	}
	return to
}

// began appends the hits of an outcome's block.
func (g *groups) began(to []Publication, w *windows.Window, o window.Outcome) []Publication {
	return g.block(to, w, o.From, o.First, o.FirstLevel, o.Event == window.Undone)
}

// sendHits sends a hit of a group rule.
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
