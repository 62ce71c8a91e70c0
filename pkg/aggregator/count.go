package aggregator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/internal/topic"
	"weir/pkg/aggregator/publishing"
	"weir/pkg/aggregator/windows"
	"weir/pkg/hit"
	"weir/pkg/window"
)

// Batches are counted some at a time, so that the windows they want are read together.
const (
	mostBatches = 64
	mostPairs   = 4096 // where windows are to be read from the store
	mostHot     = 512  // else: these stay in the processor's cache until they are counted
)

// A batch is one that is at hand.
type batch struct {
	reader   hit.Reader
	offset   int64
	recorded time.Time         // when the log got it
	windows  []*windows.Window // by pair; nil for a rule that is unknown
	fates    []fate            // by pair
	plain    bool              // every pair is counted
}

// A fate is what becomes of a pair's hits.
type fate uint8

const (
	counts      fate = iota
	covered          // they are in the window already
	unknownRule      // their rule is not known
	waits            // their window cannot be read now
	otherValues      // they have values of something else than their rule counts; commands among them count
)

// A counter counts batches of hits in the windows of their keys. Some batches are gathered together; when their windows
// are read they are counted, one after another.
type counter struct {
	ahead     time.Duration // how far a hit may be ahead of its collector's clock
	late      time.Duration // how far behind the newest hit of its key, and ahead of the log's time
	metrics   *metrics
	problems  *problems
	rules     *rulebook
	windows   *windows.Set
	sources   *hit.Positions
	publisher *publishing.Publisher
	reached   int64     // the newest counted time
	recorded  time.Time // of the last record
	decided   []publishing.Publication

	batches []*batch
	used    int // how many of them were gathered last
	ruled   []ruled
	sought  [atOnce]search
	touched int // so that touching is not left out
	traffic trafficCounter
}

// forget forgets all: the partition is taken again, with another set of windows.
func (c *counter) forget(set *windows.Set, sources *hit.Positions) {
	c.rules.forget()
	c.windows, c.sources, c.decided, c.traffic = set, sources, nil, trafficCounter{}
}

// takeDecided takes what is to be published of what was counted. It is valid until more is counted.
func (c *counter) takeDecided() []publishing.Publication {
	decided := c.decided
	c.decided = c.decided[:0]
	return decided
}

// gather takes the next records as batches, and finds the windows of their keys. It returns how many it took.
func (c *counter) gather(ctx context.Context, records []topic.Record) (int, error) {
	c.used = 0
	pairs := 0
	for n := range records {
		c.recorded = records[n].Time
		if pairs >= mostPairs || c.used >= mostBatches || pairs >= mostHot && c.windows.Wanted() == 0 {
			return n, nil
		}
		b := c.nextBatch()
		ok, err := c.judge(ctx, b, &records[n])
		if err != nil {
			return n, err
		}

		if ok {
			c.used++
			c.findWindows(b)
			pairs += len(b.windows)
		}
	}

	return len(records), nil
}

func (c *counter) nextBatch() *batch {
	if c.used == len(c.batches) {
		c.batches = append(c.batches, &batch{})
	}
	return c.batches[c.used]
}

// judge reads a record and says whether its hits are to be counted.
func (c *counter) judge(ctx context.Context, b *batch, record *topic.Record) (bool, error) {
	if err := b.reader.Reset(record.Value); err != nil {
		if errors.Is(err, hit.ErrNewer) {
			return false, fmt.Errorf("record %d: %w", record.Offset, err)
		}
		c.problems.leftOut("damaged batch", fmt.Errorf("record %d is left out: %w", record.Offset, err))
		c.metrics.batches.damaged.Inc()
		return false, nil
	}

	if c.rules.await(ctx, b.reader.Rules()); ctx.Err() != nil {
		return false, ctx.Err() // what is not known now, the next owner may know
	}
	b.offset, b.recorded = record.Offset, record.Time
	h := b.reader.Header()
	wentBack := c.sources.WentBack(h)
	verdict := c.sources.Judge(h, b.reader.Checksum(), record.Time.UnixMilli())
	c.metrics.batches.verdicts[verdict].Inc()
	if verdict == hit.Conflict || verdict == hit.Full {
		c.problems.leftOut(verdict.String(), fmt.Errorf("record %d of %s, %d to %d, is not counted: %s", record.Offset, h.Source, h.From, h.To, notCounted[verdict]))
	}

	if wentBack && verdict != hit.Apply {
		c.problems.leftOut("went back", fmt.Errorf("%s has gone back to position %d: its lines do not count up to where it was before. If its machine was set back to a snapshot, stop that collector and delete data/collector there", h.Source, h.From))
	}

	if ahead := time.UnixMilli(h.Clock).Sub(record.Time); verdict == hit.Apply && ahead > max(c.ahead, c.late) {
		c.problems.leftOut("clock of a collector", fmt.Errorf("record %d of %s: the collector's clock was ahead of the log's time by %v, so hits that are ahead of that time are not counted", record.Offset, h.Source, ahead))
	}

	return verdict == hit.Apply, nil
}

var notCounted = map[hit.Verdict]string{
	hit.Conflict: "it contradicts what was counted of its source",
	hit.Full:     "there are more sources than can be remembered",
}

// atOnce is how many windows are sought together: memory then fetches what is needed of all of them at the same time.
const atOnce = 32

// A search is for the window of a pair.
type search struct {
	*ruled
	key  []byte
	hash uint64
}

// A ruled name is one of a batch's rules.
type ruled struct {
	rule *windows.Rule // nil where it is unknown
	hash uint64        // of the windows of the rule
}

// findWindows finds the window of each pair, or wants it.
func (c *counter) findWindows(b *batch) {
	b.windows, b.fates = b.windows[:0], b.fates[:0]
	c.findRules(b.reader.Rules())
	hot := 0
	for pairs := b.reader.Pairs(); len(pairs) > 0; {
		some := pairs[:min(atOnce, len(pairs))]
		pairs = pairs[len(some):]
		searches := c.searches(some)
		c.touched += c.touch(searches)
		for i := range searches {
			w, isHot := c.findWindow(&searches[i])
			if isHot {
				hot++
			}
			b.windows = append(b.windows, w)
		}
	}

	c.metrics.lookups.hot.Add(float64(hot))
}

// findRules finds the rules of a batch.
func (c *counter) findRules(names []string) {
	c.ruled = c.ruled[:0]
	for _, name := range names {
		c.ruled = append(c.ruled, ruled{c.rules.named(name), c.windows.OfRule(name)})
	}
}

// searches are for the windows of some pairs.
func (c *counter) searches(pairs []hit.Pair) []search {
	for i, pair := range pairs {
		of := &c.ruled[pair.Rule]
		c.sought[i] = search{of, pair.Key, c.windows.Hash(of.hash, pair.Key)}
	}
	return c.sought[:len(pairs)]
}

// touch reads a little of all that will be read of each window that is sought: all of them come from memory at the same
// time, first what finds them, then they themselves, then what they refer to.
func (c *counter) touch(searches []search) (sum int) {
	var found [atOnce]*windows.Window
	for i := range searches {
		found[i] = c.windows.Likely(searches[i].hash)
	}

	for _, w := range found[:len(searches)] {
		if w != nil {
			sum += w.Touch()
		}
	}

	for _, w := range found[:len(searches)] {
		if w != nil {
			sum += int(w.Rule.Policy.Touch(&w.State))
		}
	}

	return sum
}

func (c *counter) findWindow(s *search) (w *windows.Window, hot bool) {
	if s.rule == nil {
		return nil, false
	}
	w, hot = c.windows.FindHashed(s.hash, s.rule.Name, s.key)
	if w == nil {
		w = c.windows.Want(s.rule.Name+"/"+string(s.key), s.rule)
	}
	if w.Rule != s.rule {
		w.Convert(s.rule)
	}
	return w, hot
}

// settleFates says what becomes of each pair's hits; windows that count them are from now on true for the batch.
func (c *counter) settleFates(b *batch, generation int64) {
	b.plain = true
	pairs := b.reader.Pairs()
	for i, w := range b.windows {
		fate := counts
		switch {
		case w == nil:
			fate = unknownRule
		case !w.Loaded:
			fate = waits
		case w.Covers(generation, b.offset):
			fate = covered
			c.publisher.Skipped(w)
		default:
			c.windows.Change(w)
			c.decide(w, c.reached)
			w.Generation, w.Offset = generation, b.offset
			if w.Rule.Of != b.reader.Of(pairs[i].Rule) {
				fate = otherValues
			}
		}

		b.plain = b.plain && fate == counts
		b.fates = append(b.fates, fate)
	}
}

// countBatch counts the hits of a batch, in their order. It returns how many they are.
func (c *counter) countBatch(b *batch, generation int64) int {
	c.settleFates(b, generation)
	h := b.reader.Header()
	latest := min(h.Latest(b.recorded, c.ahead, c.late), window.MaxTime)
	if !b.plain {
		c.uncounted(b, latest)
	}

	items := b.reader.Items()
	if c.rules.countsKeys {
		c.seeKeys(b, latest)
	}
	c.seeTraffic(b, latest)
	for i := range items {
		item := &items[i]
		// All hits move the time on, also those that a window has already: it is a function of the log.
		if item.UnixMilli <= latest && item.Cost > 0 {
			c.reached = max(c.reached, item.UnixMilli)
		}
		if fate := b.fates[item.Pair]; fate != counts && !(fate == otherValues && item.Cost == 0) {
			continue
		}

		w, value := b.windows[item.Pair], uint64(0)
		if w.Rule.Of != 0 {
			value = b.reader.Value(*item)
		}
		c.countHit(w, item.UnixMilli, item.Cost, value, latest, publishing.Cause{Source: h.Source, Item: int64(i)})
	}

	c.windows.Guard.Counted(generation, b.offset)
	return len(items)
}

// seeKeys notes for the guards of rules which keys have sent something, before any hit of the batch is counted: a key's
// hits of one millisecond are one hit, so in a log with full seconds a block may stand before the hits of others that came
// earlier. Hits that wait are noted too, so the keys depend on the log alone.
func (c *counter) seeKeys(b *batch, latest int64) {
	items := b.reader.Items()
	for i := range items {
		item := &items[i]
		if w := b.windows[item.Pair]; w != nil && w.Rule.CountsKeys && item.Cost > 0 && item.UnixMilli <= latest {
			c.windows.Guard.Sees(w.Rule.Name, w.Key(), item.UnixMilli)
		}
	}
}

// countHit counts a hit of a window, unless it is ahead of time. With cost 0 it is the command to unblock.
func (c *counter) countHit(w *windows.Window, at, cost int64, value uint64, latest int64, cause publishing.Cause) {
	due := w.Rule.Policy.Due(&w.State)
	if cost == 0 {
		c.decided = c.publisher.Unblock(c.decided, w, at)
		c.await(w, due)
		return
	}
	if at > latest {
		w.Rule.Tally[windows.Ahead] += windows.Requests(w.Rule.Of, cost)
		return
	}

	w.CountAgain(at)
	var outcome window.Outcome
	switch {
	case w.Rule.Of == 0:
		outcome = w.Rule.Policy.Hit(&w.State, at, cost)
	case w.Rule.Policy.CountsMembers():
		if cost == hit.NetworkShare {
			c.seeShare(w, at, value)
			return
		}
		id, gone := hit.Member(cost)
		outcome = w.Rule.Policy.HitMember(&w.State, window.MemberBlock{At: at, Value: value, ID: id, Gone: gone})
		c.publisher.Passed(w)
		cost = 1
	default:
		outcome = w.Rule.Policy.HitValue(&w.State, at, value)
		c.await(w, due)
	}
	w.Rule.Tally[outcome.Event] += cost
	if outcome.Event == window.Late {
		return
	}

	switch outcome.Event {
	case window.Broke, window.Extended, window.Moved, window.Undone:
		c.decided = c.publisher.Decide(c.decided, w, outcome, cause)
	case window.Blocked:
		if outcome.Others {
			c.publisher.Rejudged(w)
		}
	}
}

// await has the set know when the window's offence is to be decided, which was at an instant before.
func (c *counter) await(w *windows.Window, before int64) {
	if before != window.Never || w.Rule.Policy.Due(&w.State) != window.Never {
		c.windows.Await(w)
	}
}

// decide decides what of a window is pending, if the partition's time has come far enough. An offence stands at the offset
// of the last batch with hits of the key: so it is the same whether the next batch with some leads to it, before its hits are
// counted, or decideDue does.
func (c *counter) decide(w *windows.Window, passed int64) {
	due := w.Rule.Policy.Due(&w.State)
	if due >= passed {
		return
	}
	outcome := w.Rule.Policy.Judge(&w.State, passed)
	if outcome.Event == window.Broke {
		c.decided = c.publisher.Decide(c.decided, w, outcome, publishing.Cause{Item: windows.ByTime})
	}
	c.windows.Await(w)
}

// decideDue decides that of a window whose key may send nothing more. All hits are counted.
func (c *counter) decideDue(w *windows.Window) {
	if rule := c.rules.named(w.Rule.Name); rule != nil && rule != w.Rule {
		w.Convert(rule)
	}
	if w.Rule.Policy.Due(&w.State) < c.reached {
		c.windows.Change(w)
		c.decide(w, c.reached)
	}
	c.windows.Await(w)
}

// uncounted tallies the hits that are not counted, and has those wait whose windows are to be read.
func (c *counter) uncounted(b *batch, latest int64) {
	var parcels []windows.Parcel
	at := map[int32]int{} // of pairs, where they stand in parcels
	items := b.reader.Items()
	for i := range items {
		item := &items[i]
		of := b.reader.Of(b.reader.Pairs()[item.Pair].Rule)
		switch w := b.windows[item.Pair]; b.fates[item.Pair] {
		case covered:
			w.Rule.Tally[windows.Replayed] += windows.Requests(of, item.Cost)
		case unknownRule, otherValues:
			c.metrics.unruled.Add(float64(windows.Requests(of, item.Cost)))
		case waits:
			n, ok := at[item.Pair]
			if !ok {
				n = len(parcels)
				at[item.Pair] = n
				parcels = append(parcels, windows.Parcel{Window: w, Offset: b.offset, Latest: latest, Passed: c.reached, Source: b.reader.Header().Source, Of: of})
			}
			parcels[n].Hits = append(parcels[n].Hits, windows.WaitingHit{UnixMilli: item.UnixMilli, Cost: item.Cost, Value: b.reader.Value(*item)})
		}
	}
	c.windows.Wait(parcels)
}

// countParcel counts the hits of a parcel that waited, by the active rules. Its window is read.
func (c *counter) countParcel(one *windows.Parcel, generation int64) {
	w := one.Window
	rule := c.rules.named(w.Rule.Name)
	if rule == nil {
		c.metrics.unruled.Add(float64(one.Requests()))
		return
	}

	if w.Rule != rule {
		w.Convert(rule)
	}
	if w.Covers(generation, one.Offset) {
		c.publisher.Skipped(w)
		rule.Tally[windows.Replayed] += one.Requests()
		return
	}

	c.windows.Change(w)
	c.decide(w, one.Passed)
	w.Generation, w.Offset = generation, one.Offset
	for _, h := range one.Hits {
		if one.Of != rule.Of && h.Cost > 0 {
			c.metrics.unruled.Add(float64(windows.Requests(one.Of, h.Cost)))
			continue
		}
		c.countHit(w, h.UnixMilli, h.Cost, h.Value, one.Latest, publishing.Cause{Source: one.Source, Item: windows.Waited})
	}
}
