package aggregator

import (
	"slices"

	"weir/pkg/aggregator/windows"
	"weir/pkg/hit"
	"weir/pkg/request"
	"weir/pkg/rule"
	"weir/pkg/window"
)

// A trafficCounter counts the requests of networks, for the guards of group rules.
type trafficCounter struct {
	ruling  *ruling         // that the rest is of
	rule    string          // whose hits are all requests
	guarded []*guardedGroup // the group rules; none if nothing is to be counted

	judge    *rule.Judge
	roles    []trafficRole // by rule of a batch
	networks []uint64      // by pair of a batch and group rule; 0 for none
	known    []bool        // by pair, whether its networks are
}

// A guardedGroup is a group rule that is guarded by the requests of its networks.
type guardedGroup struct {
	name    string
	traffic *window.Traffic
}

// A trafficRole is what the hits of a rule are to a trafficCounter.
type trafficRole uint8

const (
	noTraffic trafficRole = iota
	requests
	shares // and blocks, of a group rule
)

// refresh follows the active rules.
func (t *trafficCounter) refresh(now *ruling, traffic *windows.Traffic) {
	if t.ruling == now {
		return
	}
	*t = trafficCounter{ruling: now}
	if i := now.set.Traffic(); i >= 0 {
		t.rule, t.judge = now.set.Rules[i].Name, now.set.NewJudge()
		for _, r := range now.set.Rules {
			if r.GuardsTraffic() {
				t.guarded = append(t.guarded, &guardedGroup{r.Name, traffic.Of(r.Name)})
			}
		}
	}
	traffic.Keep(func(name string) bool { return t.role(name) == shares })
}

func (t *trafficCounter) role(name string) trafficRole {
	switch {
	case slices.ContainsFunc(t.guarded, func(g *guardedGroup) bool { return g.name == name }):
		return shares
	case name == t.rule:
		return requests
	}
	return noTraffic
}

// seeTraffic counts the requests of a batch in their networks, and notes the shares of networks in it, before any hit is
// counted. Hits that wait or are in their windows already are counted too, so the result depends on the log alone.
func (c *counter) seeTraffic(b *batch, latest int64) {
	t := &c.traffic
	t.refresh(c.rules.ruling, c.windows.Traffic)
	if len(t.guarded) == 0 {
		return
	}

	t.begin(b)
	pairs, items := b.reader.Pairs(), b.reader.Items()
	for i := range items {
		item := &items[i]
		if item.UnixMilli > latest {
			continue
		}
		switch pair := &pairs[item.Pair]; t.roles[pair.Rule] {
		case requests:
			for i, network := range t.networksOf(item, pair) {
				t.guarded[i].traffic.Add(network, item.UnixMilli, item.Cost)
			}
		case shares:
			if item.Cost == hit.NetworkShare && b.reader.Of(pair.Rule) != 0 {
				c.windows.Traffic.Sent(b.reader.Rules()[pair.Rule], pair.Key, item.UnixMilli, b.reader.Value(*item))
			}
		}
	}
}

// seeShare notes the share of a network again, right before the block that it was sent with is counted: where the hits of its
// window waited, many later ones may have taken its place.
func (c *counter) seeShare(w *windows.Window, at int64, share uint64) {
	if w.Rule.Spec != nil && w.Rule.Spec.GuardsTraffic() {
		c.windows.Traffic.Sent(w.Rule.Name, []byte(w.Key()), at, share)
	}
}

// begin begins with another batch.
func (t *trafficCounter) begin(b *batch) {
	t.roles = t.roles[:0]
	for _, name := range b.reader.Rules() {
		t.roles = append(t.roles, t.role(name))
	}
	pairs := len(b.reader.Pairs())
	t.known = slices.Grow(t.known[:0], pairs)[:pairs]
	clear(t.known)
	t.networks = slices.Grow(t.networks[:0], pairs*len(t.guarded))[:pairs*len(t.guarded)]
}

// networksOf are the networks of the address of a pair, one for each group rule.
func (t *trafficCounter) networksOf(item *hit.Item, pair *hit.Pair) []uint64 {
	networks := t.networks[int(item.Pair)*len(t.guarded):][:len(t.guarded)]
	if t.known[item.Pair] {
		return networks
	}
	t.known[item.Pair] = true
	for i, of := range t.judge.Networks(request.Text(pair.Key), item.UnixMilli) {
		if networks[i] = 0; of.Key != nil {
			networks[i] = t.guarded[i].traffic.Network(of.Key)
		}
	}
	return networks
}
