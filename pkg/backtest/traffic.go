package backtest

import (
	"weir/pkg/rule"
	"weir/pkg/window"
)

// newTraffic makes what counts the requests of networks, by rule; nil if no group rule is guarded by traffic.
func (g *groups) newTraffic() []*window.Traffic {
	if g == nil || g.traffic < 0 {
		return nil
	}
	all := make([]*window.Traffic, len(g.set.Rules))
	for i, r := range g.set.Rules {
		if r.GuardsTraffic() {
			all[i] = window.NewTraffic(trafficSeed)
		}
	}
	return all
}

// trafficSeed is the same for all backtests, so that one has always the same result.
const trafficSeed = 1

// sees counts requests of an address in its networks.
func (v *variant) sees(number int, at, requests int64) {
	for _, of := range v.groups.judge.Networks(v.groups.keys[number], at) {
		traffic, network := v.traffic[of.Rule], uint64(0)
		if of.Key != nil {
			network = traffic.Network(of.Key)
		}
		traffic.Add(network, at, requests)
	}
}

// trafficOf is which share of the requests of the hour before an instant a network sent, and whether the guard of its rule
// keeps a block that begins then from refusing requests. It is 0 if it is not known.
func (v *variant) trafficOf(a *account, key string, from int64) (share float64, guarded bool) {
	r := v.groups.set.Rules[a.rule]
	if v.traffic == nil || !r.GuardsTraffic() {
		return 0, false
	}
	traffic := v.traffic[a.rule]
	share, of := traffic.Share(traffic.Network([]byte(key)), from)
	if of < rule.LeastTraffic {
		return 0, false
	}
	return share, share > r.Guard.MostShare/100
}

// begins notes a block of the network.
func (g *groupOffence) begins(share float64, guarded bool) {
	g.share = max(g.share, share)
	if g.guarded = guarded; guarded {
		g.shown++
	}
}

// undo forgets the last block of the network, which never was.
func (g *groupOffence) undo() {
	if g.guarded {
		g.guarded = false
		g.shown--
	}
}

// guarded reports whether all blocks of a key refuse no one.
func (b *Blocked) guarded() bool {
	return b.Group != nil && b.Group.Guarded > 0 && b.Group.Guarded >= b.Blocks
}
