package aggregator

import (
	"context"
	"errors"
	"fmt"

	"weir/internal/kafka"
	"weir/pkg/aggregator/windows"
	"weir/pkg/hit"
	"weir/pkg/window"
)

// Batches are counted some at a time, so that the windows they want are read together.
const (
	mostBatches = 64
	mostPairs   = 4096 // where windows are to be read from the store
	mostLeaving = 5000 // evicted windows that wait to be written
	mostHot     = 512  // else: these stay in the processor's cache until they are counted
)

// A batch is one that is at hand.
type batch struct {
	reader  hit.Reader
	offset  int64
	windows []*windows.Window // by pair; nil for a rule that is unknown
	fates   []fate            // by pair
	plain   bool              // every pair is counted
}

// A fate is what becomes of a pair's hits.
type fate uint8

const (
	counts  fate = iota
	covered      // they are in the window already
	unruled      // their rule is not known
	waits        // their window cannot be read now
)

// count counts the records. Some batches are begun together, and either all of them are counted or the partition is
// taken again: the memory in between is true for no offset.
func (p *partition) count(ctx context.Context, records []kafka.Record) error {
	if len(records) == 0 {
		p.amid = true
		if err := p.loadOrWait(ctx); err != nil {
			return err
		}
		p.amid = false
		p.windows.Settle()
	}

	for len(records) > 0 {
		p.amid = true
		n, err := p.gather(ctx, records)
		if err != nil {
			return err
		}
		if err := p.loadOrWait(ctx); err != nil {
			return err
		}

		for _, b := range p.batches[:p.used] {
			if err := p.countBatch(ctx, b); err != nil {
				return err
			}
		}

		p.amid = false
		p.windows.Settle()
		p.position.Counted(records[:n])
		records = records[n:]
		if err := p.breathe(ctx, len(records) > 0); err != nil {
			return err
		}
	}

	p.rules.settle()
	return nil
}

// breathe writes back between the batches of one answer of Kafka.
func (p *partition) breathe(ctx context.Context, more bool) error {
	if more {
		p.answerNow(ctx)
		if p.saver.Breathes() && !p.storeRests() {
			if err := p.saver.WriteBack(ctx); err != nil && !p.away(err) {
				return err
			}
		}
	}

	for p.windows.Leaving() > mostLeaving {
		err := p.saver.WriteBack(ctx)
		if err == nil {
			continue
		}
		if !p.away(err) {
			return err
		}

		p.pause(ctx, tryAgain)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}

	return nil
}

// gather takes the next records as batches, and finds the windows of their keys. It returns how many it took.
func (p *partition) gather(ctx context.Context, records []kafka.Record) (int, error) {
	p.used = 0
	pairs := 0
	for n := range records {
		if pairs >= mostPairs || p.used >= mostBatches || pairs >= mostHot && p.windows.Wanted() == 0 {
			return n, nil
		}
		b := p.nextBatch()
		ok, err := p.judge(ctx, b, &records[n])
		if err != nil {
			return n, err
		}

		if ok {
			p.used++
			p.findWindows(b)
			pairs += len(b.windows)
		}
	}

	return len(records), nil
}

func (p *partition) nextBatch() *batch {
	if p.used == len(p.batches) {
		p.batches = append(p.batches, &batch{})
	}
	return p.batches[p.used]
}

// judge reads a record and says whether its hits are to be counted.
func (p *partition) judge(ctx context.Context, b *batch, record *kafka.Record) (bool, error) {
	if err := b.reader.Reset(record.Value); err != nil {
		if errors.Is(err, hit.ErrNewer) {
			return false, fmt.Errorf("record %d: %w", record.Offset, err)
		}
		p.faults.Note("damaged batch", fmt.Errorf("record %d is left out: %w", record.Offset, err))
		p.metrics.batches.damaged.Inc()
		return false, nil
	}

	if p.awaitRules(ctx, b.reader.Rules()); ctx.Err() != nil {
		return false, ctx.Err() // what is not known now, the next owner may know
	}
	b.offset = record.Offset
	h := b.reader.Header()
	verdict := p.sources.Judge(h, b.reader.Checksum(), record.Time.UnixMilli())
	p.metrics.batches.of(verdict).Inc()
	if verdict == hit.Conflict || verdict == hit.Full {
		p.faults.Note(verdict.String(), fmt.Errorf("record %d of %s, %d to %d, is not counted: %s", record.Offset, h.Source, h.From, h.To, notCounted[verdict]))
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
func (p *partition) findWindows(b *batch) {
	b.windows, b.fates = b.windows[:0], b.fates[:0]
	p.findRules(b.reader.Rules())
	hot := 0
	for pairs := b.reader.Pairs(); len(pairs) > 0; {
		some := pairs[:min(atOnce, len(pairs))]
		pairs = pairs[len(some):]
		searches := p.searches(some)
		p.touched += p.touch(searches)
		for i := range searches {
			w, isHot := p.findWindow(&searches[i])
			if isHot {
				hot++
			}
			b.windows = append(b.windows, w)
		}
	}

	p.metrics.lookups.hot.Add(float64(hot))
}

// findRules finds the rules of a batch.
func (p *partition) findRules(names []string) {
	p.ruled = p.ruled[:0]
	for _, name := range names {
		p.ruled = append(p.ruled, ruled{p.rules.named(name), p.windows.OfRule(name)})
	}
}

// searches are for the windows of some pairs.
func (p *partition) searches(pairs []hit.Pair) []search {
	for i, pair := range pairs {
		of := &p.ruled[pair.Rule]
		p.sought[i] = search{of, pair.Key, p.windows.Hash(of.hash, pair.Key)}
	}
	return p.sought[:len(pairs)]
}

// touch reads a little of all that will be read of each window that is sought: all of them come from memory at the same
// time, first what finds them, then they themselves, then what they refer to.
func (p *partition) touch(searches []search) (sum int) {
	var found [atOnce]*windows.Window
	for i := range searches {
		found[i] = p.windows.Likely(searches[i].hash)
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

func (p *partition) findWindow(s *search) (w *windows.Window, hot bool) {
	if s.rule == nil {
		return nil, false
	}
	w, hot = p.windows.FindHashed(s.hash, s.rule.Name, s.key)
	if w == nil {
		w = p.windows.Want(s.rule.Name+"/"+string(s.key), s.rule)
	}
	if w.Rule != s.rule {
		w.Convert(s.rule)
	}
	return w, hot
}

// settleFates says what becomes of each pair's hits; windows that count them are from now on true for the batch.
func (p *partition) settleFates(b *batch) {
	b.plain = true
	generation := p.position.At().Generation
	for _, w := range b.windows {
		fate := counts
		switch {
		case w == nil:
			fate = unruled
		case !w.Loaded:
			fate = waits
		case w.Covers(generation, b.offset):
			fate = covered
			p.publisher.Skipped(w)
		default:
			p.windows.Change(w)
			w.Generation, w.Offset = generation, b.offset
		}

		b.plain = b.plain && fate == counts
		b.fates = append(b.fates, fate)
	}
}

// countBatch counts the hits of a batch, in their order.
func (p *partition) countBatch(ctx context.Context, b *batch) error {
	p.settleFates(b)
	h := b.reader.Header()
	latest := h.Clock + p.config.Ahead.Milliseconds()
	if !b.plain {
		p.uncounted(b, latest)
	}

	items := b.reader.Items()
	p.saver.Counted(len(items))
	for i := range items {
		item := &items[i]
		if b.fates[item.Pair] != counts {
			continue
		}

		w := b.windows[item.Pair]
		if item.UnixMilli > latest || item.Cost == 0 {
			p.rare(w, b, item, latest)
			continue
		}

		outcome := w.Rule.Policy.Hit(&w.State, item.UnixMilli, item.Cost)
		w.Rule.Tally[outcome.Event] += item.Cost
		if outcome.Event == window.Late {
			continue
		}

		p.reached = max(p.reached, item.UnixMilli)
		if began(outcome.Event) {
			p.decided = p.publisher.Decide(p.decided, w, outcome, h.Source)
		}
	}

	return p.publish(ctx)
}

// publish publishes what was decided.
func (p *partition) publish(ctx context.Context) error {
	decided := p.decided
	p.decided = p.decided[:0]
	defer clear(decided)
	return p.publisher.Publish(ctx, decided)
}

// began says whether a block was begun, extended or moved.
func began(e window.Event) bool {
	return e == window.Broke || e == window.Extended || e == window.Moved
}

// rare is a hit ahead of time, or a command.
func (p *partition) rare(w *windows.Window, b *batch, item *hit.Item, latest int64) {
	if _, ok := b.reader.Unblock(*item); ok {
		p.decided = p.publisher.Unblock(p.decided, w)
		return
	}
	if item.UnixMilli > latest {
		w.Rule.Tally[windows.Ahead] += item.Cost
	}
}

// uncounted tallies the hits that are not counted, and has those wait whose windows are to be read.
func (p *partition) uncounted(b *batch, latest int64) {
	var parcels []windows.Parcel
	at := map[int32]int{} // of pairs, where they stand in parcels
	items := b.reader.Items()
	for i := range items {
		item := &items[i]
		switch w := b.windows[item.Pair]; b.fates[item.Pair] {
		case covered:
			w.Rule.Tally[windows.Replayed] += item.Cost
		case unruled:
			p.metrics.unruled.Add(float64(item.Cost))
		case waits:
			n, ok := at[item.Pair]
			if !ok {
				n = len(parcels)
				at[item.Pair] = n
				parcels = append(parcels, windows.Parcel{Window: w, Offset: b.offset, Latest: latest, Source: b.reader.Header().Source})
			}
			parcels[n].Hits = append(parcels[n].Hits, windows.WaitingHit{UnixMilli: item.UnixMilli, Cost: item.Cost})
		}
	}
	p.windows.Wait(parcels)
}

// loadOrWait reads the windows that are wanted, and counts what waited for them. While the store is away it leaves
// them, up to the bound; then it returns only when the store is back.
func (p *partition) loadOrWait(ctx context.Context) error {
	for {
		if p.windows.Wanted() == 0 {
			return nil
		}
		if !p.storeRests() {
			err := p.windows.Load(ctx)
			if err == nil {
				p.storeFaults.Over("store")
				return p.countWaiting(ctx)
			}
			if !p.away(err) {
				return err
			}
		}

		if p.windows.Waiting() < p.config.MostWaiting {
			return nil
		}
		p.pause(ctx, tryAgain)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// countWaiting counts the hits that waited, in their order, by the active rules. All windows are read.
func (p *partition) countWaiting(ctx context.Context) error {
	parcels := p.windows.TakeWaiting()
	for i := range parcels {
		p.countParcel(&parcels[i])
		if err := p.publish(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (p *partition) countParcel(one *windows.Parcel) {
	w := one.Window
	rule := p.rules.named(w.Rule.Name)
	if rule == nil {
		p.metrics.unruled.Add(float64(one.Cost()))
		return
	}

	if w.Rule != rule {
		w.Convert(rule)
	}
	if w.Covers(p.position.At().Generation, one.Offset) {
		p.publisher.Skipped(w)
		rule.Tally[windows.Replayed] += one.Cost()
		return
	}

	p.windows.Change(w)
	w.Generation, w.Offset = p.position.At().Generation, one.Offset
	for _, h := range one.Hits {
		p.countWaitingHit(w, one, h)
	}
}

func (p *partition) countWaitingHit(w *windows.Window, one *windows.Parcel, h windows.WaitingHit) {
	if h.Cost == 0 {
		p.decided = p.publisher.Unblock(p.decided, w)
		return
	}
	if h.UnixMilli > one.Latest {
		w.Rule.Tally[windows.Ahead] += h.Cost
		return
	}

	outcome := w.Rule.Policy.Hit(&w.State, h.UnixMilli, h.Cost)
	w.Rule.Tally[outcome.Event] += h.Cost
	if outcome.Event == window.Late {
		return
	}

	p.reached = max(p.reached, h.UnixMilli)
	if began(outcome.Event) {
		p.decided = p.publisher.Decide(p.decided, w, outcome, one.Source)
	}
}
