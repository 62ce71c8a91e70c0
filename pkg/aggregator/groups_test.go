package aggregator

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/store"
	"weir/pkg/aggregator/windows"
	"weir/pkg/blocklist"
	"weir/pkg/geoip"
	"weir/pkg/geoip/geoiptest"
	"weir/pkg/hit"
	"weir/pkg/rule"
	"weir/pkg/window"
)

const labGroups = `
rules:
  - {name: few, key: ip, limits: [4/10s], block: {for: 20s, then: [40s, 2m], forget: 10m}}
  - {name: paths, key: ip, distinct: path, limits: [4/10s], mode: shadow, block: {for: 1s}}
  - {name: sprays, on: blocked, key: ip/24+48, distinct: ip, limits: [3/30s, 5/5m], mode: enforce, block: {for: 1m, then: [3m]}}
  - {name: wide, on: blocked, key: ip/20+48, distinct: ip, limits: [8/2m], block: {for: 2m}}
  - {name: providers, on: blocked, key: asn, distinct: ip, limits: [5/1m], match: asn != 64502, mode: enforce, block: {for: 3m}}
  - {name: above-sprays, on: blocked, above: sprays, key: ip/20+48, distinct: ip, limits: [4/20s, 7/2m], mode: enforce, block: {for: 30s}}
  - {name: above-all, on: blocked, above: above-sprays, key: asn, distinct: ip, limits: [2/1m], match: asn != 64502, block: {for: 1m}}
allow:
  - {ip: 192.0.5.200, rules: [sprays], note: a partner}
`

func newGroupsLab(t testing.TB, seed uint64) *lab { return newGroupsLabOn(t, seed, newMemoryStore()) }

func newGroupsLabOn(t testing.TB, seed uint64, cold store.Store) *lab {
	l := newLab(t, seed, cold)
	l.groups, l.rules = &outbox{killIn: -1}, labGroups
	database, err := geoip.Read("asn.mmdb", geoiptest.Bytes(t, 1, map[string]geoiptest.Entry{
		"192.0.2.0/24": {ASN: 64500}, "192.0.4.0/25": {ASN: 64500}, "192.0.3.0/24": {ASN: 64501}, "192.0.5.0/24": {ASN: 64502}}))
	if err != nil {
		t.Fatal(err)
	}
	l.places = geoip.Join(database)
	l.start(labGroups)
	return l
}

// spray writes a cut of hits of addresses of four networks; so many hits of some of them break a limit. Few are of an
// address that is unblocked.
func (l *lab) spray() {
	names := []string{"few", "few", "paths"}
	name, of := names[l.r.IntN(len(names))], uint64(0)
	if name == "paths" {
		of = l.values
	}
	l.sendValues(fmt.Sprint("s", l.r.IntN(3)), name, of, func(w *hit.Writer) {
		for range 1 + l.r.IntN(4) {
			key := fmt.Appendf(nil, "192.0.%d.%d", 2+l.r.IntN(4), l.r.IntN(9))
			at := l.newest().UnixMilli() - int64(l.r.ExpFloat64()*8000)
			if l.r.IntN(30) == 0 {
				w.Unblock(0, key, at, "order")
				continue
			}
			for n := range int64(1 + l.r.IntN(5)) {
				if of != 0 {
					w.AddValue(0, key, at+n, uint64(l.r.IntN(12)))
					continue
				}
				w.Add(0, key, at+n, 1)
			}
		}
	})
}

// A memberTruth is the blocks of addresses by the rules that count requests, as they are when the log is read once.
type memberTruth struct {
	rule *rule.Rule
	key  string
	id   string
	from int64
}

// members reads the log once, without the hits of groups.
func (l *lab) members(set *rule.Set) []memberTruth {
	positions := hit.NewPositions(1000, 48*time.Hour)
	states, lasts := map[string]*window.State{}, map[string]string{} // the id of the last block that is not lifted
	blocks := map[string]memberTruth{}
	policies := map[string]*window.Policy{}
	for _, r := range set.Rules {
		policies[r.Name], _ = r.Policy(labLate, 0)
	}
	for _, record := range l.records {
		var reader hit.Reader
		if reader.Reset(record.Value) != nil || strings.HasPrefix(reader.Header().Source, "blocks/") ||
			positions.Judge(reader.Header(), reader.Checksum(), record.Time.UnixMilli()) != hit.Apply {
			continue
		}
		for _, item := range reader.Items() {
			pair := reader.Pairs()[item.Pair]
			r, _ := set.Rule(reader.Rules()[pair.Rule])
			name := r.Name + "/" + string(pair.Key)
			if states[name] == nil {
				states[name] = &window.State{}
			}
			s := states[name]
			if _, ok := reader.Unblock(item); ok {
				policies[r.Name].Unblock(s, item.UnixMilli)
				delete(blocks, lasts[name])
				delete(lasts, name)
				continue
			}
			var o window.Outcome
			if r.CountsDistinct() {
				o = policies[r.Name].HitValue(s, item.UnixMilli, reader.Value(item))
			} else {
				o = policies[r.Name].Hit(s, item.UnixMilli, item.Cost)
			}
			id := func(o window.Outcome) string { return blocklist.ID(r.Name, string(pair.Key), o.First, o.FirstLevel) }
			put := func(o window.Outcome) { blocks[id(o)] = memberTruth{r, string(pair.Key), id(o), o.From} }
			switch {
			case o.Event == window.Broke || o.Event == window.Moved:
				if o.Event == window.Moved {
					for _, gone := range s.Gone() {
						delete(blocks, id(gone))
					}
				}
				for _, other := range s.Others() {
					put(other)
				}
				put(o)
				lasts[name] = id(o)
			case o.Event == window.Blocked && o.Others:
				for _, other := range s.Others() {
					put(other)
				}
			}
		}
	}
	return slices.SortedFunc(maps.Values(blocks), func(a, b memberTruth) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.id, b.id)) })
}

// compareGroups compares the list with the groups of the blocks in the order of their times.
func (l *lab) compareGroups() (blocked int) {
	l.t.Helper()
	set := parseRules(l.t, l.rules).Located(l.places)
	judge, states, said := set.NewJudge(), map[string]*window.State{}, l.said()
	policies := map[string]*window.Policy{}
	for _, r := range set.Rules {
		policies[r.Name], _ = r.Policy(labLate, 0)
	}
	var count func(hits []rule.GroupHit, at int64, gone bool)
	count = func(hits []rule.GroupHit, at int64, gone bool) {
		names := make([]string, len(hits))
		for i, h := range hits {
			names[i] = set.Rules[h.Rule].Name + "/" + string(h.Key)
		}
		for i, h := range slices.Clone(hits) {
			r, s := set.Rules[h.Rule], states[names[i]]
			if s == nil {
				s = &window.State{}
				states[names[i]] = s
			}
			policies[r.Name].HitMember(s, window.MemberBlock{At: at, Value: h.Value, ID: h.ID, Gone: gone})
			for _, m := range s.Passed() {
				count(judge.Above(r, m), m.At, m.Gone)
			}
		}
	}
	for _, m := range l.members(set) {
		count(judge.Blocks(&rule.BlockOf{Rule: m.rule, Key: m.key, ID: m.id, From: m.from, Shadow: m.rule.Mode == rule.Shadow}), m.from, false)
	}
	for name, s := range states {
		from, until, level, ok := s.Block()
		e := said[name]
		if !ok {
			if e != nil && e.Ended == 0 {
				l.t.Errorf("%s is blocked: %+v", name, e)
			}
			continue
		}
		blocked++
		if e != nil && e.Ended != 0 && e.From >= until {
			continue // a later one ended, so this one was over
		}
		if e == nil || e.Ended != 0 || e.From != from || e.Until != until || e.Level != level {
			l.t.Errorf("%s: the list has %+v, want %d to %d of level %d", name, e, from, until, level)
		}
	}
	for name, e := range said {
		if strings.HasPrefix(name, "sprays/") || strings.HasPrefix(name, "wide/") || strings.HasPrefix(name, "providers/") || strings.HasPrefix(name, "above-") {
			if states[name] == nil && e.Ended == 0 {
				l.t.Errorf("%s is blocked, and no address of it", name)
			}
			if e.Ended == 0 && !strings.Contains(e.Why, " blocked addresses: 192.0.") {
				l.t.Errorf("%s does not name its addresses: %q", name, e.Why)
			}
		}
	}
	return blocked
}

// breaks writes cuts by which addresses of a network break the limit of a rule.
func (l *lab) breaks(addresses ...int) {
	for _, n := range addresses {
		l.hits(fmt.Sprint("192.0.2.", n), 5)
	}
}

// A network is blocked with the address that is one too many, the entry names the addresses, and it ends when so many are
// unblocked that the limit is kept; another address begins a new block.
func TestAGroupEndsWhenItsAddressesAreUnblocked(t *testing.T) {
	l := newGroupsLab(t, 1)
	p := l.takes()
	l.breaks(1, 2, 3)
	l.settle(p)
	if e := l.said()["sprays/192.0.2.0/24"]; e != nil {
		t.Fatalf("three addresses are allowed: %+v", e)
	}
	l.breaks(2, 4)
	l.settle(p)
	begun := l.said()["few/192.0.2.4"].From
	l.want("sprays/192.0.2.0/24", func(e *blocklist.Entry) bool {
		return e.From == begun && e.Count == 4 && e.Mode == blocklist.Enforce && e.Limit == "3 blocked addresses within 30 seconds" &&
			e.Why == "4 blocked addresses: 192.0.2.1, 192.0.2.2, 192.0.2.3, 192.0.2.4"
	})

	l.unblock("192.0.2.3")
	l.settle(p)
	l.want("sprays/192.0.2.0/24", func(e *blocklist.Entry) bool {
		return e.Ended > 0 && e.Why == "too many of its addresses were unblocked"
	})
	l.breaks(5)
	l.settle(p)
	l.want("sprays/192.0.2.0/24", func(e *blocklist.Entry) bool {
		return e.Ended == 0 && e.From > begun && e.Why == "4 blocked addresses: 192.0.2.1, 192.0.2.2, 192.0.2.4, 192.0.2.5"
	})

	// The network itself is unblocked: it begins again.
	l.send("enforcer", "sprays", func(w *hit.Writer) { w.Unblock(0, []byte("192.0.2.0/24"), l.newest().UnixMilli(), "order") })
	l.settle(p)
	l.want("sprays/192.0.2.0/24", func(e *blocklist.Entry) bool { return e.Ended > 0 && e.Why == "" })
	l.breaks(6, 7, 8)
	l.settle(p)
	l.want("sprays/192.0.2.0/24", func(e *blocklist.Entry) bool { return e.Ended > 0 })
}

// The last block of a network is lifted with its addresses, and then further ones are unblocked, or break their limit late:
// the block before moves to where it lasts yet, and stands on the list.
func TestABlockOfAGroupThatMovesWhenALaterOneWasLiftedIsListed(t *testing.T) {
	for name, moves := range map[string]func(breaks, unblock func(seconds int64, address int)){
		"later": func(_, unblock func(int64, int)) { unblock(71, 1) },
		"twice": func(breaks, unblock func(int64, int)) {
			unblock(71, 1)
			breaks(64, 9) // the block moves from the 65th second
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newGroupsLab(t, 1)
			l.rules = `rules:
  - {name: few, key: ip, limits: [4/10s], block: {for: 1h}}
  - {name: sprays, on: blocked, key: ip/24+48, distinct: ip, limits: [3/5m], mode: enforce, block: {for: 1m}}`
			l.start(l.rules)
			p := l.takes()
			begin := l.newest().UnixMilli()
			l.clock, l.now = begin+70_000, time.UnixMilli(begin+70_000)
			breaks := func(seconds int64, address int) {
				l.send("s", "few", func(w *hit.Writer) { w.Add(0, fmt.Append(nil, "192.0.2.", address), begin+seconds*1000, 5) })
				l.settle(p)
			}
			unblock := func(seconds int64, address int) {
				l.send("enforcer", "few", func(w *hit.Writer) { w.Unblock(0, fmt.Append(nil, "192.0.2.", address), begin+seconds*1000, "order") })
				l.settle(p)
			}

			for address, seconds := range []int64{6, 7, 8, 10, 70, 71, 72, 73} {
				breaks(seconds-6, address+1)
			}
			l.want("sprays/192.0.2.0/24", func(e *blocklist.Entry) bool { return e.From == begin+67_000 && e.Ended == 0 })
			unblock(70, 5)
			l.want("sprays/192.0.2.0/24", func(e *blocklist.Entry) bool { return e.From == begin+67_000 && e.Ended > 0 })
			moves(breaks, unblock)
			want := begin + 65_000
			if name == "twice" {
				want = begin + 64_000
			}
			l.want("sprays/192.0.2.0/24", func(e *blocklist.Entry) bool { return e.From == want && e.Ended == 0 })
		})
	}
}

// The block of an address that a group rule does not count is one hit of the metrics, whatever its id.
func TestHitsOfAnotherGroupAreOneEach(t *testing.T) {
	l := newGroupsLab(t, 1)
	sprays, _ := parseRules(t, labGroups).Rule("sprays")
	p := l.takes()
	l.sendValues("blocks", "sprays", sprays.ValuesOf()+1, func(w *hit.Writer) {
		w.AddMember(0, []byte("192.0.2.0/24"), l.newest().UnixMilli(), 1, 1<<60, false)
	})
	l.settle(p)
	if n := testutil.ToFloat64(l.agg.metrics.unruled); n != 1 {
		t.Errorf("%v hits, want 1", n)
	}
}

// A block that a guard holds back does not count in its network, and the one that is enforced later counts, also after
// restarts; a guard of a group rule holds back its blocks, and these are lifted with their addresses.
func TestGroupsAndGuards(t *testing.T) {
	l := newGroupsLab(t, 1)
	l.rules = `rules:
  - {name: few, key: ip, limits: [4/10s], block: {for: 1h}, guard: {most_new: 2/min}}
  - {name: sprays, on: blocked, key: ip/24+48, distinct: ip, limits: [1/10m], mode: enforce, block: {for: 2h}, guard: {most_new: 1/min}}`
	begin := l.newest().UnixMilli()
	breaks := func(seconds int64, keys ...string) {
		l.kill()
		p := l.takes()
		l.clock = begin + seconds*1000
		for _, key := range keys {
			l.send("s", "few", func(w *hit.Writer) { w.Add(0, []byte(key), l.clock, 5) })
		}
		l.settle(p)
	}
	breaks(1, "192.0.2.1", "192.0.3.1", "192.0.2.2", "192.0.3.2")
	for key, guarded := range map[string]bool{"192.0.2.1": false, "192.0.3.1": false, "192.0.2.2": true, "192.0.3.2": true} {
		l.want("few/"+key, func(e *blocklist.Entry) bool { return e.Guarded == guarded })
	}
	for _, key := range []string{"192.0.2.0/24", "192.0.3.0/24"} {
		if e := l.said()["sprays/"+key]; e != nil {
			t.Errorf("%s is blocked by what is held back: %+v", key, e)
		}
	}
	breaks(130, "192.0.2.2", "192.0.3.2")
	l.want("few/192.0.2.2", func(e *blocklist.Entry) bool { return !e.Guarded })
	l.want("sprays/192.0.2.0/24", func(e *blocklist.Entry) bool {
		return e.From == begin+130_000 && e.Mode == blocklist.Enforce && !e.Guarded
	})
	l.want("sprays/192.0.3.0/24", func(e *blocklist.Entry) bool {
		return e.From == begin+130_000 && e.Mode == blocklist.Shadow && e.Guarded
	})
	p := l.takes()
	l.unblock("192.0.3.1")
	l.settle(p)
	l.want("sprays/192.0.3.0/24", func(e *blocklist.Entry) bool { return e.Ended > 0 })
}

// Of a block that each hit of a late batch moves, its network gets to know where it is then.
func TestABlockThatMovesOftenIsOneHit(t *testing.T) {
	l := newGroupsLab(t, 1)
	l.rules = `rules:
  - {name: few, key: ip, limits: [1000/10s], block: {for: 1h}}
  - {name: sprays, on: blocked, key: ip/24+48, distinct: ip, limits: [1/10m], mode: enforce}`
	l.start(l.rules)
	p := l.takes()
	at := l.newest().UnixMilli() + 5000
	l.clock = at + 10_000
	send := func(source, key string, from int64) {
		l.send(source, "few", func(w *hit.Writer) {
			for n := range int64(2000) {
				w.Add(0, []byte(key), from+n, 1)
			}
		})
		l.settle(p)
	}
	send("a", "192.0.2.1", at)
	send("a", "192.0.2.2", at)
	before := len(l.records)
	send("b", "192.0.2.2", at-2000)
	if n := len(l.records) - before - 1; n != 1 {
		t.Errorf("%d hits of groups", n)
	}
	l.want("few/192.0.2.2", func(e *blocklist.Entry) bool { return e.From == at-1000 })
	send("b", "192.0.2.1", at-2000)
	l.want("sprays/192.0.2.0/24", func(e *blocklist.Entry) bool { return e.From == at-1000 })
}

// An entry names twenty addresses, and how many more there are.
func TestAGroupNamesItsAddresses(t *testing.T) {
	l := newGroupsLab(t, 1)
	l.start("rules: [{name: few, key: ip, limits: [4/10s]}, {name: sprays, on: blocked, key: ip/24+48, distinct: ip, limits: [24/1h]}]")
	p := l.takes()
	for n := range 26 {
		l.breaks(n)
	}
	l.settle(p)
	l.want("sprays/192.0.2.0/24", func(e *blocklist.Entry) bool {
		return e.Mode == blocklist.Shadow && strings.HasPrefix(e.Why, "25 blocked addresses: 192.0.2.0, ") && strings.HasSuffix(e.Why, ", 192.0.2.19 and 5 more")
	})
}

// tormentGroups writes sprays and kills the aggregator again and again.
func (l *lab) tormentGroups() {
	for range 25 {
		for range l.r.IntN(60) {
			l.spray()
		}
		p := l.partition()
		switch l.r.IntN(4) {
		case 0:
			l.store.killIn = l.r.IntN(60)
		case 1:
			l.list.killIn = l.r.IntN(20)
		case 2:
			l.groups.killIn = l.r.IntN(10)
		}
		l.live(p, 1+l.r.IntN(60))
		l.kill()
	}
	l.settle(l.takes())
}

// Aggregators are killed at any time. The list ends with the groups of the blocks that addresses have, in the order of
// their times.
func TestGroupsOfAKilledAggregator(t *testing.T) {
	blocked, ended, systems, above := 0, 0, 0, map[string]int{}
	for seed := range uint64(40) {
		l := newGroupsLab(t, seed)
		l.tormentGroups()
		blocked += l.compareGroups()
		if e := l.said()["providers/64500"]; e != nil && e.Fields["asn"] == "64500" {
			systems++
		}
		for name, e := range l.said() {
			if rule, _, _ := strings.Cut(name, "/"); strings.HasPrefix(rule, "above-") && e.Ended == 0 {
				above[rule]++
			}
		}
		for _, m := range l.events.arrived {
			if line := string(m.Value); strings.Contains(line, `"rule":"sprays"`) && strings.Contains(line, `"event":"lifted"`) {
				ended++
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if blocked < 30 || ended < 5 || systems < 10 || above["above-sprays"] < 10 || above["above-all"] < 10 {
		t.Errorf("%d groups are blocked, the blocks of %d have ended, %d systems were blocked, and above others %v: the traffic shows too little", blocked, ended, systems, above)
	}
	onStores(t, func(t *testing.T, cold store.Store) {
		l := newGroupsLabOn(t, 99, cold)
		l.tormentGroups()
		if l.compareGroups() == 0 {
			t.Error("no group is blocked")
		}
	})
}

// While a partition waits for the store, with as many hits as may wait, the hits of groups of what it has counted do not.
func TestHitsOfGroupsDoNotWaitForTheStore(t *testing.T) {
	l := newGroupsLab(t, 1)
	p := l.takes()
	l.hits("192.0.2.9", 1)
	l.hits("192.0.2.1", 1)
	l.settle(p)
	l.start(labGroups) // nothing is hot
	p = l.takes()
	l.hits("192.0.2.1", 1)
	l.settle(p)
	p.config.MostWaiting, l.log.most, l.store.away = 1, 1000, true
	l.breaks(1)
	for range 3 * mostBatches {
		l.hits("192.0.2.9", 1)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := p.turn(ctx); err == nil || p.windows.Waiting() == 0 {
		t.Fatalf("it does not wait for the store: %v", err)
	}
	if len(l.groups.waiting) == 0 {
		t.Error("the hit of the group was not sent")
	}
}

// The log is replaced while hits wait for the store, and the process is killed when it has noted that: the hits of groups
// are in the new log.
func TestHitsOfGroupsWhenTheLogIsAnother(t *testing.T) {
	l := newGroupsLab(t, 1)
	p := l.takes()
	l.hits("192.0.2.1", 1)
	l.settle(p)
	l.start(labGroups)
	p = l.takes()
	l.hits("192.0.2.2", 1)
	l.settle(p)
	l.store.away = true
	l.breaks(1)
	l.turn(p)
	if p.windows.Waiting() == 0 {
		t.Fatal("nothing waits")
	}

	before := checkpointOf(p).Generation
	l.store.away, l.records, l.hitsTopic = false, nil, "lab/hits/2"
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	l.now = l.now.Add(time.Minute)
	_ = p.turn(ctx)
	written, _, err := l.store.Read(t.Context(), 0, store.Windows, [][]byte{[]byte("few/192.0.2.1")})
	if err != nil {
		t.Fatal(err)
	}
	record, err := windows.ReadRecord(written[0])
	if err != nil {
		t.Fatal(err)
	}
	if len(l.groups.waiting) != 1 || record.Verdict != nil {
		t.Errorf("%d hits of groups were sent, and are not in the log, and the window is written with %+v", len(l.groups.waiting), record.Verdict)
	}

	l.list.deliver(len(l.list.waiting))
	l.events.deliver(len(l.events.waiting))
	l.deliverGroups(1)
	l.settle(p)
	if generation := checkpointOf(p).Generation; generation == before || len(l.records) == 0 {
		t.Errorf("generation %d, %d records", generation, len(l.records))
	}
}
