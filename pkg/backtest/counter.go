package backtest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"weir/pkg/rule"
	"weir/pkg/window"
)

// A counter counts the hits of one set of rules, under one or more variants of it.
//
// A hit gets its key's number when it arrives, waits in the reorder buffer, and is then counted in the order of time.
// Due hits are counted in batches: after each chunk, when the buffer is full, and before a hit that is too late for the
// buffer and goes to its window at once. The exact moment changes no result.
//
// A hit whose time is far ahead of the log waits outside the buffer until the log gets there: one line of a server
// whose clock was wrong must not make all later lines late. At most 1,024 wait.
type counter struct {
	late     int64 // milliseconds
	table    *keyTable
	buffer   *reorder
	ahead    []record // by time
	variants []*variant
	dueNow   [][]record // scratch
	groups   *groups    // nil without group rules
}

const (
	mostAhead = 1024
	lateCost  = 0 // the cost of a hit that came too late for its key
)

func newCounter(set *rule.Set, late time.Duration) *counter {
	c := &counter{late: late.Milliseconds(), table: newKeyTable(), buffer: newReorder(late + slack*time.Millisecond)}
	c.groups = newGroups(set, c.table)
	return c
}

// judgeBy adds a variant.
func (c *counter) judgeBy(v *variant) {
	v.groups, v.members, v.traffic = c.groups, map[uint64]bool{}, c.groups.newTraffic()
	c.variants = append(c.variants, v)
}

// add adds one hit of a request.
func (c *counter) add(h *hit, key []byte, input int) error {
	newest := h.at
	if h.ahead {
		newest = 0 // a wrong clock must not make the key's other hits late
	}

	number, newest, isNew := c.table.find(h.hash, int(h.rule), key, newest)
	if isNew {
		// Create the accounts of a new key.
		rule := int(h.rule)
		const maxKeys = 1 << 32
		if int64(number) >= maxKeys {
			return fmt.Errorf("there are more than %d keys", int64(maxKeys))
		}
		for _, v := range c.variants {
			if number/accountsOfPage == len(v.pages) {
				v.pages = append(v.pages, new([accountsOfPage]account))
			}
			v.account(number).rule = uint16(rule)
			v.rules[rule].keys++
		}
		if c.groups != nil {
			c.groups.keys = append(c.groups.keys, string(key))
		}
	}

	// Judged by the key's newest hit at its arrival, as a live system would, and not by the order in which hits are
	// counted.
	if h.at < newest-min(c.late, c.variants[0].rules[h.rule].policy.Lateness()) {
		h.cost = lateCost
	}
	records := newRecord(h.at, input, number, h.cost, h.more).withValue(h.value)
	all := records[:]
	if t := &c.variants[0].rules[h.rule]; !t.distinct && !t.share || h.cost == lateCost {
		records[0].cost = h.cost
		all = records[:1]
	}
	if h.ahead && len(c.ahead) < mostAhead {
		at, _ := slices.BinarySearchFunc(c.ahead, h.at+1, func(r record, at int64) int { return cmp.Compare(r.at(), at) })
		c.ahead = slices.Insert(c.ahead, at, all...)
		return nil
	}

	// The log may have reached those by now.
	if len(c.ahead) > 0 {
		c.admit(h.at)
	}
	c.put(all)
	return nil
}

// admit moves hits to the buffer that are not ahead any more.
func (c *counter) admit(until int64) {
	n := 0
	for n < len(c.ahead) && c.ahead[n].at() <= until {
		records := 1
		if c.ahead[n].cost == valueFollows {
			records = 2
		}
		c.put(c.ahead[n : n+records])
		n += records
	}
	c.ahead = slices.Delete(c.ahead, 0, n)
}

// put adds a hit to the buffer, or counts it at once when it is too late for that.
func (c *counter) put(records []record) {
	if c.buffer.tooLate(records[0].at()) {
		c.countDue()
		for _, v := range c.variants {
			v.countRecords(records)
		}
		return
	}

	for _, rec := range records {
		// The time went forward by more than the ring spans: after the due ones are counted there is room.
		if !c.buffer.add(rec) {
			c.countDue()
			c.buffer.add(rec)
		}
	}
}

// countDue counts the hits that no earlier hit can follow.
func (c *counter) countDue() { c.count(c.buffer.due(c.dueNow[:0])) }

// countRest counts all waiting hits.
func (c *counter) countRest() {
	c.admit(window.MaxTime)
	c.count(c.buffer.rest(c.dueNow[:0]))
	for _, v := range c.variants {
		v.judgeRest()
	}
}

func (c *counter) count(due [][]record) {
	for _, v := range c.variants {
		v.countAll(due)
	}
	c.buffer.giveBack(due)
	c.dueNow = due
}

// A variant judges the hits of a set of rules in one way.
type variant struct {
	rules     []tally
	pages     []*[accountsOfPage]account // by the key's number
	refused   int64                      // requests that an enforcing rule refuses
	series    *series                    // of them
	timelines *timelines                 // nil where none are kept
	groups    *groups                    // nil without group rules
	members   map[uint64]bool            // addresses whose blocks count in groups with others above
	awaited   awaited                    // with group rules
	traffic   []*window.Traffic          // by rule; nil if no group rule is guarded by traffic
	shares    []memberShare              // with traffic

	refusing bool // the request whose hits are being counted is refused
	scratch  []byte
	hits     int64         // counted while the time was measured
	took     time.Duration // for them
}

// A tally is the result of one rule.
type tally struct {
	policy    *window.Policy
	limits    []window.Limit
	algorithm window.Algorithm
	sliding   bool // and hits are counted
	distinct  bool // different values are counted
	group     bool // blocks of addresses are counted
	share     bool // of hits, those whose value is 1
	awaits    bool // the time decides its offences
	enforce   bool

	keys, requests, refused, late int64
}

// An account is one key under one rule. It fills a line of the cache.
type account struct {
	state    window.State
	requests int64
	offence  *offence // nil until a limit is broken
	room     int32    // hits that certainly break no limit, whenever they come; for the algorithm Sliding
	rule     uint16
}

const accountsOfPage = 1 << 10

func newVariant(rules []tally, mostBars int) *variant {
	return &variant{rules: rules, series: newSeries(mostBars)}
}

func (v *variant) account(number int) *account {
	return &v.pages[number/accountsOfPage][number%accountsOfPage]
}

func (v *variant) countAll(due [][]record) {
	began := time.Now()
	for _, records := range due {
		v.hits += v.countRecords(records)
	}
	v.took += time.Since(began)
}

// countRecords counts the hits of some records, and returns how many they are.
func (v *variant) countRecords(records []record) (hits int64) {
	for i := 0; i < len(records); i++ {
		rec := &records[i]
		hits++
		if rec.cost == valueFollows {
			i++
			v.count(rec, 1, records[i].value())
			continue
		}
		v.count(rec, int64(rec.cost), 0)
	}
	return hits
}

// count counts one hit. With a request's last hit it counts the request as refused if one of its hits was.
func (v *variant) count(rec *record, cost int64, value uint64) {
	if len(v.awaited) > 0 {
		v.judgeDue(rec.at())
	}
	a := v.account(int(rec.key))
	t := &v.rules[a.rule]
	if v.hit(int(rec.key), a, t, rec.at(), cost, value) {
		t.refused++
		v.refusing = v.refusing || t.enforce
	}

	if rec.more() {
		return
	}
	if v.refusing {
		v.refusing = false
		v.refused++
		v.series.at(rec.at()).refused++
	}
}

// hit counts a hit of an account and reports whether it is refused.
func (v *variant) hit(number int, a *account, t *tally, at, cost int64, value uint64) (refused bool) {
	if cost == lateCost {
		t.late++
		return false
	}
	if t.group {
		return v.network(a, t, at, value)
	}
	if v.traffic != nil && int(a.rule) == v.groups.traffic {
		v.sees(number, at, cost)
	}

	var before *window.State
	// Counting the room of a sliding limit is as expensive as a hit, so it is counted once for many hits, as long as
	// they come in order.
	switch {
	case !t.sliding || a.offence != nil:
	case at < a.state.Newest():
		a.room = 0 // the room at this instant does not apply to later ones
	case int64(a.room) < cost:
		before = v.look(a, t, at, cost)
	}

	var o window.Outcome
	if t.distinct || t.share {
		due := t.policy.Due(&a.state)
		o = t.policy.HitValue(&a.state, at, value)
		if v.groups != nil {
			v.await(number, a, due)
		}
	} else {
		o = t.policy.Hit(&a.state, at, cost)
	}
	if o.Event == window.Late {
		t.late++
		return false
	}

	t.requests++
	a.requests++
	if v.groups != nil {
		v.follow(number, a, o)
	}
	a.room -= int32(min(max(cost, 0), int64(a.room)))
	refused = o.Event != window.Counted && o.From <= at && at < o.Until
	// Keys that kept their limits, which are most, have no offence and cost no more than this.
	if a.offence == nil && o.Event != window.Broke {
		return false
	}
	if a.offence == nil {
		a.offence = newOffence(t, o, before)
	}

	if t.share {
		cost = int64(value) // the peak is of those that match
	}
	a.offence.hit(at, cost, value, o, refused)
	if v.timelines != nil {
		v.timelines.hit(a.offence, at, refused)
	}
	return refused
}

// judgeRest begins the blocks that the time decides when no hit comes any more.
func (v *variant) judgeRest() {
	if !slices.ContainsFunc(v.rules, func(t tally) bool { return t.awaits }) {
		return
	}
	for n, page := range v.pages {
		for i := range page {
			v.judge(n*accountsOfPage+i, &page[i], window.MaxTime)
		}
	}
}

// look finds how many hits there is room for. If that is less than cost it returns a copy of the state: the hit will
// break a limit, and the window then forgets hits that the peak needs.
func (v *variant) look(a *account, t *tally, at, cost int64) *window.State {
	const most = 1 << 30
	room := int64(most)
	for i, l := range t.limits {
		count := int64(0)
		if a.requests > 0 {
			count = t.policy.Count(&a.state, i, at)
		}
		room = min(room, l.Hits-count)
	}

	if room >= cost {
		a.room = int32(room)
		return nil
	}

	// There is nothing that the peak could need.
	if a.requests == 0 {
		return nil
	}

	a.room = 0
	return v.copyOf(t.policy, &a.state)
}

func (v *variant) copyOf(p *window.Policy, s *window.State) *window.State {
	v.scratch = p.Append(v.scratch[:0], s)
	c := new(window.State)
	if err := p.Read(v.scratch, c); err != nil {
		panic("a state does not read what it wrote: " + err.Error())
	}
	return c
}
