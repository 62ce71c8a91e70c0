package backtest

import (
	"slices"

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

// A memberShare is which share of the requests of the hour before the block of an address its network sent.
type memberShare struct {
	network *account
	at      int64
	share   float64
}

const mostShares = 1024 // that are remembered, the newest

// sends notes the share of a network with the block of an address, if enough requests are known.
func (v *variant) sends(a *account, key string, at int64) {
	if v.traffic == nil || v.traffic[a.rule] == nil {
		return
	}
	traffic := v.traffic[a.rule]
	share, of := traffic.Share(traffic.Network([]byte(key)), at)
	if sent := (memberShare{a, at, share}); of >= rule.LeastTraffic && !slices.Contains(v.shares, sent) {
		v.shares = append(slices.Delete(v.shares, 0, max(0, len(v.shares)+1-mostShares)), sent)
	}
}

// trafficOf is which share of an hour's requests a network sent, as an aggregator takes it: the mean of those that came with
// the blocks of its addresses within the limit's time before an instant. guarded is whether the guard of its rule keeps a block
// that begins then from refusing requests. The share is 0 if it is not known.
func (v *variant) trafficOf(a *account, from int64) (share float64, guarded bool) {
	sum, count := 0.0, 0.0
	for _, s := range v.shares {
		if s.network == a && s.at > from-v.rules[a.rule].policy.Longest().Milliseconds() {
			sum, count = sum+s.share, count+1
		}
	}
	if count == 0 {
		return 0, false
	}
	return sum / count, sum/count > v.groups.set.Rules[a.rule].Guard.MostShare/100
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
