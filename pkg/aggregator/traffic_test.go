package aggregator

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/store"
	"weir/pkg/blocklist"
	"weir/pkg/hit"
	"weir/pkg/rule"
)

const labTraffic = `
rules:
  - {name: few, key: ip, limits: [4/10s], block: {for: 20s, then: [40s, 2m], forget: 10m}}
  - {name: paths, key: ip, distinct: path, limits: [4/10s], mode: shadow, block: {for: 1s}}
  - {name: sprays, on: blocked, key: ip/24+48, distinct: ip, limits: [3/30s, 5/5m], mode: enforce, block: {for: 10s, then: [20s]}, guard: {most_share: 25%}}
`

// requestsOf sends requests of many addresses of a network, at one moment.
func (l *lab) requestsOf(network string, requests int) {
	l.send("visitors", "few", func(w *hit.Writer) {
		for n := range requests {
			w.Add(0, fmt.Appendf(nil, "%s.%d", network, 20+n%200), l.newest().UnixMilli()-int64(n/200)*11_000, 1)
		}
	})
}

// A network with five in a hundred of the last hour's requests is guarded, and says why; a small one is blocked. Neither
// does a restart change that, nor does the small one's share of earlier hours.
func TestALargeNetworkIsGuarded(t *testing.T) {
	l := newGroupsLab(t, 1)
	l.rules = strings.Replace(labTraffic, "25%", "1%", 1)
	l.start(l.rules)
	p := l.takes()
	for n := range 19 {
		l.requestsOf(fmt.Sprint("198.18.", n), 200)
	}
	l.requestsOf("192.0.2", 200)
	l.settle(p)
	for _, network := range []string{"192.0.2", "192.0.3"} {
		l.kill()
		p = l.takes()
		for n := range 4 {
			l.hits(fmt.Sprint(network, ".", n), 5)
		}
		l.settle(p)
	}
	l.want("sprays/192.0.2.0/24", func(e *blocklist.Entry) bool {
		return e.Guarded && e.ByShare && e.Mode == blocklist.Shadow && strings.HasPrefix(e.Why, "4 blocked addresses: ") &&
			strings.HasSuffix(e.Why, "; not refused, because the network sent more of the last hour's requests than the guard's most_share")
	})
	l.want("sprays/192.0.3.0/24", func(e *blocklist.Entry) bool { return !e.Guarded && e.Mode == blocklist.Enforce })
}

// A guarded network that goes on is judged again a minute later: when its share has become small, it is blocked, also after a
// restart. A block that began stays as it is.
func TestAGuardedNetworkThatBecomesSmallIsBlocked(t *testing.T) {
	l := newGroupsLab(t, 1)
	l.rules = strings.Replace(labTraffic, "block: {for: 10s, then: [20s]}", "block: {for: 1h}", 1)
	l.start(l.rules)
	begin := l.newest().UnixMilli()
	breaks := func(seconds int64, addresses ...int) *blocklist.Entry {
		l.kill()
		p := l.takes()
		l.clock = begin + seconds*1000
		for _, n := range addresses {
			l.send("s", "few", func(w *hit.Writer) { w.Add(0, fmt.Appendf(nil, "192.0.2.%d", n), l.clock, 5) })
		}
		l.settle(p)
		return l.said()["sprays/192.0.2.0/24"]
	}
	l.requestsOf("192.0.2", 1000)
	guarded := breaks(1, 1, 2, 3, 4)
	if !guarded.ByShare || guarded.From != begin+1000 {
		t.Fatalf("%+v", guarded)
	}
	if e := breaks(65, 5, 6, 7, 8); e.ID != guarded.ID || !e.ByShare {
		t.Errorf("a large network that goes on: %+v", e)
	}
	for n := range 20 {
		l.requestsOf(fmt.Sprint("198.18.", n), 1000)
	}
	if e := breaks(190, 9); e.ID != guarded.ID || !e.ByShare {
		t.Errorf("one more address: %+v", e)
	}
	if e := breaks(500, 10, 11, 12, 13); e.Guarded || e.Mode != blocklist.Enforce || e.From != begin+500_000 || e.ID == guarded.ID {
		t.Errorf("a network that became small: %+v", e)
	}
}

// A site with few requests has no such guard.
func TestFewRequestsGuardNothing(t *testing.T) {
	l := newGroupsLab(t, 1)
	l.rules = labTraffic
	l.start(l.rules)
	p := l.takes()
	l.requestsOf("192.0.2", 200)
	l.breaks(1, 2, 3, 4)
	l.settle(p)
	l.want("sprays/192.0.2.0/24", func(e *blocklist.Entry) bool { return !e.Guarded })
}

// The shares of many other networks do not take the place of the one that came with the block of an address, before that is
// counted. Hits before 1970 do no harm.
func TestManySharesDoNotHideThatOfALargeNetwork(t *testing.T) {
	l := newGroupsLab(t, 1)
	l.rules = labTraffic
	l.start(l.rules)
	p := l.takes()
	at, set := l.newest().UnixMilli(), p.rules.set()
	of := set.ValuesOf()[slices.IndexFunc(set.Rules, func(r *rule.Rule) bool { return r.Name == "sprays" })]
	l.send("damaged", "few", func(w *hit.Writer) { w.Add(0, []byte("192.0.2.9"), -time.Hour.Milliseconds(), 1) })
	l.sendValues("blocks", "sprays", of, func(w *hit.Writer) {
		for n := range uint64(4) {
			w.AddShare(0, []byte("192.0.2.0/24"), at, 500_000)
			w.AddMember(0, []byte("192.0.2.0/24"), at, n, n, false)
		}
		for n := range 1100 {
			w.AddShare(0, fmt.Appendf(nil, "10.%d.%d.0/24", n/250, n%250), at, 1)
		}
	})
	l.settle(p)
	l.want("sprays/192.0.2.0/24", func(e *blocklist.Entry) bool { return e.Guarded && e.ByShare })
}

// A trafficTwin reads the log once, and keeps all requests and shares.
type trafficTwin struct {
	counts map[string]int64 // requests by network
	total  int64
	sent   map[string][][2]int64     // by network: when, and how many millionths
	seen   map[string]map[int64]bool // shares that a network had at some place
}

// read reads a record. Shares that no place of the log before it leads to are errors.
func (w *trafficTwin) read(t *testing.T, r *hit.Reader) {
	latest := r.Header().Clock + 10_000
	for _, item := range r.Items() {
		pair := r.Pairs()[item.Pair]
		name, key := r.Rules()[pair.Rule], string(pair.Key)
		if item.Cost == 0 || item.UnixMilli > latest {
			continue
		}
		switch {
		case name == "few":
			prefix, _ := netip.MustParseAddr(key).Prefix(24)
			w.counts[prefix.String()] += item.Cost
			w.total += item.Cost
		case name == "sprays" && item.Cost == hit.NetworkShare:
			share := int64(r.Value(item))
			if sent := [2]int64{item.UnixMilli, share}; !slices.Contains(w.sent[key], sent) {
				w.sent[key] = append(w.sent[key], sent)
			}
			if !w.seen[key][share] {
				t.Errorf("%s never had %d millionths of the requests", key, share)
			}
		}
	}
	for key, count := range w.counts {
		if w.seen[key] == nil {
			w.seen[key] = map[int64]bool{}
		}
		w.seen[key][int64(float64(count)/float64(w.total)*1e6)] = true
	}
}

// exceeds reports whether a network has more than a quarter at an instant.
func (w *trafficTwin) exceeds(key string, from int64) bool {
	sum, count := int64(0), int64(0)
	for _, s := range w.sent[key] {
		if s[0] > from-5*time.Minute.Milliseconds() {
			sum, count = sum+s[1], count+1
		}
	}
	return count > 0 && float64(sum)/float64(count) > 250_000
}

// compareTraffic compares which networks are guarded with what the log says, read once. Blocks that moved stay as they began.
func (l *lab) compareTraffic(t *testing.T) (guarded, enforced int) {
	first := map[string]*blocklist.Entry{} // of each block that never moved
	for _, m := range l.list.arrived {
		e := l.entry(m.Key, m.Value)
		if e == nil || e.Rule != "sprays" || e.Ended != 0 {
			continue
		}
		switch was := first[e.ID]; {
		case was == nil:
			first[e.ID] = e
		case was.From != e.From || was.Level != e.Level:
			was.Level = -1
		case e.Offset < was.Offset:
			first[e.ID] = e
		}
	}
	at := map[int64][]*blocklist.Entry{}
	for id, e := range first {
		if id == blocklist.ID(e.Rule, e.Key, e.From, e.Level) {
			at[e.Offset] = append(at[e.Offset], e)
		}
	}
	w := &trafficTwin{map[string]int64{}, 0, map[string][][2]int64{}, map[string]map[int64]bool{}}
	positions := hit.NewPositions(1000, 48*time.Hour)
	for i, record := range l.records {
		var reader hit.Reader
		if reader.Reset(record.Value) != nil || positions.Judge(reader.Header(), reader.Checksum(), record.Time.UnixMilli()) != hit.Apply {
			continue
		}
		w.read(t, &reader)
		for _, e := range at[int64(i)] {
			if want := w.exceeds(e.Key, e.From); e.Guarded != want || e.ByShare != want {
				t.Errorf("%s of %d is guarded: %v, want %v by %v: %+v", e.Key, i, e.Guarded, want, w.sent[e.Key], e)
			}
			if e.Guarded {
				guarded++
			} else {
				enforced++
			}
		}
	}
	return guarded, enforced
}

// Which networks are guarded is a function of the log, whatever is killed.
func TestGuardedNetworksOfAKilledAggregator(t *testing.T) {
	guarded, enforced := 0, 0
	run := func(t *testing.T, seed uint64, cold store.Store) {
		l := newGroupsLabOn(t, seed, cold)
		l.rules = labTraffic
		l.start(l.rules)
		l.tormentGroups()
		g, e := l.compareTraffic(t)
		guarded, enforced = guarded+g, enforced+e
	}
	for seed := range uint64(20) {
		run(t, seed, newMemoryStore())
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d are guarded, %d are not", guarded, enforced)
	if min(guarded, enforced) < 20 {
		t.Error("the traffic shows too little")
	}
	onStores(t, func(t *testing.T, cold store.Store) { run(t, 99, cold) })
}

// A batch of a thousand addresses, for a provider and a network each; a hit costs this more than without a guard.
func BenchmarkTraffic(b *testing.B) {
	l := newGroupsLab(b, 1)
	l.rules = strings.Replace(labTraffic, "  - {name: paths", "  - {name: providers, on: blocked, key: asn, distinct: ip, limits: [3/30s], guard: {most_share: 1%}}\n  - {name: paths", 1)
	l.start(l.rules)
	p := l.takes()
	l.requestsOf("192.0.2", 200)
	l.send("visitors", "few", func(w *hit.Writer) {
		for n := range 1000 {
			w.Add(0, fmt.Appendf(nil, "198.18.%d.%d", n/250, n%250), l.newest().UnixMilli(), 1)
		}
	})
	if n, err := p.counter.gather(b.Context(), l.records); n != 2 || err != nil {
		b.Fatal(n, err)
	}
	of := p.counter.batches[1]
	p.counter.seeTraffic(of, 1<<50)
	b.ReportAllocs()
	for b.Loop() {
		p.counter.seeTraffic(of, 1<<50)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/hit")
}
