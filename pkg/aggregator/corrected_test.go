package aggregator

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"weir/pkg/blocklist"
	"weir/pkg/hit"
	"weir/pkg/window"
)

// A spread backlog is hits in the order of time, dealt out to sources as a topic without keys deals them to partitions.
type spread struct {
	at  int64
	key string
}

// deal makes so many hits of some keys in an hour. Some of the keys break their limit.
func (l *lab) deal(count int) []spread {
	begin := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	hits := make([]spread, count)
	for i := range hits {
		hits[i] = spread{begin + int64(i)*100 + int64(l.r.IntN(80)), ""}
		hits[i].key = fmt.Sprintf("192.0.2.%d", int(l.r.ExpFloat64()*12))
	}
	return hits
}

// A backlog that comes from eight sources, each in order and none near the others: the list, and the events, end with the
// blocks of the sorted log, to the millisecond, under the ids that these had from the beginning.
func TestEntriesOfASpreadBacklogAreThoseOfTheSortedLog(t *testing.T) {
	for seed := range uint64(4) {
		l := newLab(t, seed, newMemoryStore())
		p := l.takes()
		hits := l.deal(900)
		for i := range hits {
			hits[i].key = fmt.Sprintf("192.0.2.%d", l.r.IntN(6))
		}
		l.clock = hits[len(hits)-1].at
		l.dealOut(p, hits)
		l.settle(p)
		said, first := l.said(), l.firstOf()
		broke, corrected := 0, 0
		for key, want := range l.sorted(labRules, hits) {
			e := said["few/"+key]
			if want == nil {
				if e != nil {
					t.Errorf("%s kept its limit, and the list has %+v", key, e)
				}
				continue
			}
			broke++
			if e == nil || e.From != want.From || e.Until != want.Until || e.Count != want.Count || e.Level != want.Level || e.Limit != "4/10s" {
				t.Errorf("%s: the list has %+v, want %+v", key, e, *want)
				continue
			}
			if began := first[e.ID]; began == nil {
				t.Errorf("%s: the events have nothing of %s", key, e.ID)
			} else if began.From != e.From {
				corrected++
			}
		}
		if broke < 5 || corrected < 3 {
			t.Errorf("%d keys broke a limit, and %d entries were corrected: the backlog shows too little", broke, corrected)
		}
	}
}

// Where late hits show that the block of an entry was a short one, and that the key's last block is over too, nothing of the
// key stays on the list.
func TestNoEntryStaysOfABlockThatIsOver(t *testing.T) {
	const rules = `
rules:
  - {name: few, key: ip, limits: [5/4s, 30/1h], block: {for: 20s, until: clear}}
`
	shortened := 0
	for seed := range uint64(400) {
		l := newLab(t, seed, newMemoryStore())
		l.start(rules)
		p := l.takes()
		hits := l.deal(900)
		for i := range hits {
			hits[i].key = fmt.Sprintf("192.0.2.%d", l.r.IntN(6))
		}
		l.clock = hits[len(hits)-1].at
		l.now = time.UnixMilli(l.clock + time.Minute.Milliseconds())
		l.dealOut(p, hits)
		l.settle(p)
		said, now := l.said(), l.now.UnixMilli()
		for key, want := range l.sorted(rules, hits) {
			e := said["few/"+key]
			listed := e != nil && e.Ended == 0 && e.Until > now
			switch live := want != nil && want.Until > now; {
			case listed != live:
				t.Errorf("seed %d: %s: the list has %+v, want %+v", seed, key, e, want)
			case live && (e.From != want.From || e.Until != want.Until || e.Count != want.Count || e.Level != want.Level):
				t.Errorf("seed %d: %s: the list has %+v, want %+v", seed, key, e, *want)
			case !live && e != nil && e.ID != blocklist.ID("few", key, e.From, e.Level):
				shortened++
			}
		}
	}
	if shortened == 0 {
		t.Error("no block that was on the list was a short one: the traffic shows too little")
	}
}

// dealOut has hits counted, dealt to eight sources that take turns of different lengths.
func (l *lab) dealOut(p *partition, hits []spread) {
	l.t.Helper()
	queues := make([][]spread, 8)
	for i, h := range hits {
		queues[i%8] = append(queues[i%8], h)
	}
	reached := make([]int64, 8)
	for {
		n := l.r.IntN(8)
		oldest := slices.Min(reached)
		if len(queues[n]) == 0 {
			if !slices.ContainsFunc(queues, func(q []spread) bool { return len(q) > 0 }) {
				return
			}
			continue
		}
		some := queues[n][:min(len(queues[n]), 1+l.r.IntN(40))]
		if ahead := some[len(some)-1].at - max(oldest, hits[0].at); ahead > labLate.Milliseconds()*9/10 {
			continue // no stream is further ahead of the others
		}
		queues[n] = queues[n][len(some):]
		reached[n] = some[len(some)-1].at
		if len(queues[n]) == 0 {
			reached[n] = 1 << 60
		}
		l.send(fmt.Sprint("s", n), "few", func(w *hit.Writer) {
			for _, h := range some {
				w.Add(0, []byte(h.key), h.at, 1)
			}
		})
		if l.r.IntN(4) == 0 {
			l.turn(p)
			l.list.deliver(len(l.list.waiting))
			l.events.deliver(len(l.events.waiting))
		}
	}
}

// sorted are the last blocks of the log in the order of time, nil for keys that kept the limit.
func (l *lab) sorted(rules string, hits []spread) map[string]*window.Outcome {
	policy, err := parseRules(l.t, rules).Rules[0].Policy(0, 0)
	if err != nil {
		l.t.Fatal(err)
	}
	slices.SortStableFunc(hits, func(a, b spread) int { return int(a.at - b.at) })
	states, blocks := map[string]*window.State{}, map[string]*window.Outcome{}
	for _, h := range hits {
		if states[h.key] == nil {
			states[h.key], blocks[h.key] = &window.State{}, nil
		}
		if o := policy.Hit(states[h.key], h.at, 1); o.Event == window.Broke {
			blocks[h.key] = &o
		}
	}
	return blocks
}

// firstOf are the first events of each id.
func (l *lab) firstOf() map[string]*blocklist.Entry {
	first := map[string]*blocklist.Entry{}
	for _, m := range l.events.arrived {
		var e blocklist.Entry
		if err := json.Unmarshal(m.Value, &e); err != nil {
			l.t.Fatal(err)
		}
		if first[e.ID] == nil {
			first[e.ID] = &e
		}
	}
	return first
}

// A correction that ends a block earlier reaches the list although it is over by that, and keeps the entry's id.
func TestACorrectionReachesTheList(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	p := l.takes()
	l.settle(p)
	begin := l.newest().UnixMilli()
	l.clock = begin + 60_000
	add := func(source string, offsets ...int64) {
		l.send(source, "few", func(w *hit.Writer) {
			for _, at := range offsets {
				w.Add(0, []byte("192.0.2.1"), begin+at, 1)
			}
		})
		l.settle(p)
	}
	add("a", 1000, 2000, 3000, 4000, 9000)
	l.want("few/192.0.2.1", func(e *blocklist.Entry) bool { return e.From == begin+9000 && e.Count == 5 })
	id := l.said()["few/192.0.2.1"].ID
	l.now = time.UnixMilli(begin + 28_500) // the block lasts until 29 s, the true one until 24 s
	add("b", 1500)
	l.want("few/192.0.2.1", func(e *blocklist.Entry) bool {
		return e.From == begin+4000 && e.Until == begin+24_000 && e.Count == 5 && e.ID == id
	})
	last := string(l.events.arrived[len(l.events.arrived)-1].Value)
	var event struct{ Event, ID string }
	if err := json.Unmarshal([]byte(last), &event); err != nil || event.Event != blocklist.EventCorrected || event.ID != id {
		t.Errorf("%v: %s", err, last)
	}
	l.start(labRules) // what was counted is counted on, by another owner
	p = l.takes()
	add("a", 24_000, 25_000, 26_000, 27_000)
	l.want("few/192.0.2.1", func(e *blocklist.Entry) bool { return e.ID == id })
	add("a", 27_500)
	l.want("few/192.0.2.1", func(e *blocklist.Entry) bool { return e.From == begin+27_500 && e.Level == 2 && e.ID != id })
}

// eventsOf are the events of an id, in the order in which they arrived.
func (l *lab) eventsOf(id string) (events []string) {
	l.t.Helper()
	for _, m := range l.events.arrived {
		var e struct{ Event, ID string }
		if err := json.Unmarshal(m.Value, &e); err != nil {
			l.t.Fatal(err)
		}
		if e.ID == id {
			events = append(events, e.Event)
		}
	}
	return events
}

// at sends hits of one key, at times after an instant.
func (l *lab) at(source string, begin int64, after ...int64) {
	l.t.Helper()
	l.send(source, "few", func(w *hit.Writer) {
		for _, ms := range after {
			w.Add(0, []byte("192.0.2.1"), begin+ms, 1)
		}
	})
}

// A killed owner may not have published that a block began: the next one does, also where a late hit has just moved the
// block, and where another block follows or a person lifts it before the correction is sent.
func TestAMovedBlockHasItsBlockedEventAfterAKill(t *testing.T) {
	for name, then := range map[string]func(l *lab, begin int64){
		"moved":   func(*lab, int64) {},
		"lifted":  func(l *lab, _ int64) { l.unblock("192.0.2.1") },
		"another": func(l *lab, begin int64) { l.at("a", begin, 25_000, 25_100, 25_200, 25_300, 25_400) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 1, onDisk(t))
			begin := l.newest().UnixMilli()
			l.clock = begin + 60_000
			l.now = time.UnixMilli(begin + 5_000)
			p := l.takes()
			l.settle(p)
			l.save(p) // the next checkpoint is of all that follows
			l.at("a", begin, 1000, 2000, 3000, 4000, 9000)
			l.crowd(p)
			l.list.lose(0)
			l.events.lose(0)
			l.start(labRules)
			next := l.takes()
			l.log.most = 1000
			l.at("b", begin, 1500)
			then(l, begin)
			l.settle(next)
			id := blocklist.ID("few", "192.0.2.1", begin+9000, 1)
			if events := l.eventsOf(id); len(events) == 0 || events[0] != blocklist.EventBlocked {
				t.Errorf("the events are %q", events)
			}
		})
	}
}

// A block that was over when it was found has no event. A late hit that has it begin before its key's last block is
// forgotten makes it longer: where it lasts by that, it has an event of its beginning.
func TestABlockThatComesToLastBegins(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	begin := l.newest().UnixMilli()
	l.clock = begin + 700_000
	l.now = time.UnixMilli(begin + 645_000)
	p := l.takes()
	l.at("a", begin, 1000, 1050, 1100, 1200, 1300, 620_000, 620_100, 620_200, 620_300, 621_400)
	l.settle(p)
	if len(l.events.arrived) > 0 {
		t.Fatalf("a block that is over has an event: %s", l.events.arrived[0].Value)
	}
	l.at("b", begin, 620_050)
	l.settle(p)
	if events := l.eventsOf(blocklist.ID("few", "192.0.2.1", begin+621_400, 1)); !slices.Equal(events, []string{blocklist.EventBlocked}) {
		t.Errorf("the events are %q", events)
	}
	l.want("few/192.0.2.1", func(e *blocklist.Entry) bool { return e.Level == 2 && e.Until == begin+660_300 })
}

// Late hits show that the block of an entry was a short one that is over, and that another followed. Both have their events.
func TestABlockThatIsOverAfterAllIsCorrected(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	begin := l.newest().UnixMilli()
	l.clock = begin + 60_000
	l.now = time.UnixMilli(begin + 30_000)
	p := l.takes()
	l.at("a", begin, 21_000, 21_100, 21_200, 21_300, 22_000, 22_100, 22_200, 22_300, 22_400)
	l.settle(p)
	l.at("b", begin, 1000, 1100, 1200, 1300, 1400)
	l.settle(p)
	id := blocklist.ID("few", "192.0.2.1", begin+22_000, 1)
	if events := l.eventsOf(id); !slices.Equal(events, []string{blocklist.EventBlocked, blocklist.EventCorrected}) {
		t.Errorf("the events are %q", events)
	}
	l.want("few/192.0.2.1", func(e *blocklist.Entry) bool { return e.Level == 2 && e.From == begin+22_400 })
}
