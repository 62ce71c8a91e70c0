package crash

import (
	"slices"
	"sort"
	"time"

	stored "weir/pkg/aggregator/windows"
	"weir/pkg/blocklist"
	"weir/pkg/hit"
	"weir/pkg/rule"
)

// A pair is a rule's name and a key.
type pair struct{ rule, key string }

// An instant is some hits of one millisecond.
type instant struct{ at, cost int64 }

// A history is all of a key's hits that can still matter, in the order of time, and its last block.
type history struct {
	partition   int
	hits        []instant
	newest      int64
	from, until int64
	level       int
	entry       *verdict // of the last block
	unblocked   int64    // when it last was
	waived      bool     // the last block was guarded, and hits count again since until

	// For rules that do not count hits inside blocks: hits has these too, since the end of the last block that no hit
	// can move.
	settled verdict
	open    []*verdict // the blocks behind it
}

// A verdict is an entry that the blocklist must have.
type verdict struct {
	blocklist.Entry
	lifted bool // by an unblock command
	moved  bool // by late hits: the list may have had its last record before

	replaced bool // before it ended, as it was guarded: the list may have forgotten it
}

// A truth counts the log of hits slowly and plainly: maps, sorted slices, every window counted again for every hit. It
// shares with the tested code only the encoding of batches.
type truth struct {
	rules       map[string]*rule.Rule
	late, ahead int64
	keys        map[pair]*history
	verdicts    map[string]*verdict // by id
	ends        []map[string]batch  // the last batch applied, by partition and source
	reached     []int64             // the newest time counted, by partition
	seen        map[string]int      // the results of batches and items
	begun       map[begin]int64     // blocks
	keysOf      []stored.Guard      // that sent something, by partition, of rules that bound the share of keys
}

// A begin is where and when blocks of a rule begin.
type begin struct {
	rule      string
	partition int
	minute    int64
}

// A batch identifies a batch of one source.
type batch struct {
	hit.Header
	checksum uint64
}

func newTruth(rules *rule.Set, partitions int, late, ahead time.Duration) *truth {
	w := &truth{
		rules: map[string]*rule.Rule{}, late: late.Milliseconds(), ahead: ahead.Milliseconds(), keys: map[pair]*history{},
		verdicts: map[string]*verdict{}, reached: make([]int64, partitions), seen: map[string]int{}, begun: map[begin]int64{}, keysOf: make([]stored.Guard, partitions),
	}
	for _, r := range rules.Rules {
		w.rules[r.Name] = r
	}
	for range partitions {
		w.ends = append(w.ends, map[string]batch{})
	}
	return w
}

// record counts one record of a partition's log.
func (w *truth) record(partition int, offset int64, value []byte) error {
	var r hit.Reader
	if err := r.Reset(value); err != nil {
		return err
	}
	if !w.isNew(partition, batch{r.Header(), r.Checksum()}) {
		return nil
	}
	for _, item := range r.Items() {
		p := r.Pairs()[item.Pair]
		name := r.Rules()[p.Rule]
		if _, ok := r.Unblock(item); !ok && item.UnixMilli <= r.Header().Clock+w.ahead && w.rules[name].Guard.MostShare > 0 {
			w.keysOf[partition].Sees(name, string(p.Key), item.UnixMilli)
		}
	}
	for _, item := range r.Items() {
		p := r.Pairs()[item.Pair]
		of := pair{r.Rules()[p.Rule], string(p.Key)}
		if _, ok := r.Unblock(item); ok {
			w.unblock(of, partition, item.UnixMilli)
			continue
		}
		if item.UnixMilli > r.Header().Clock+w.ahead {
			w.seen["ahead"]++
			continue
		}
		w.hit(of, partition, offset, instant{item.UnixMilli, item.Cost})
	}
	return nil
}

// isNew reports whether a batch follows the last one of its source.
func (w *truth) isNew(partition int, b batch) bool {
	last := w.ends[partition][b.Source]
	sameCut := b.From == last.From && b.To == last.To
	switch {
	case b.From >= last.To, sameCut && last.More && b.Part == last.Part+1:
		w.ends[partition][b.Source] = b
		w.seen["applied"]++
		return true
	case b.To < last.To, sameCut && b.Part < last.Part, sameCut && b.Part == last.Part && b.checksum == last.checksum:
		w.seen["resent"]++
	default:
		w.seen["conflict"]++
	}
	return false
}

func (w *truth) unblock(of pair, partition int, at int64) {
	w.seen["unblock"]++
	if h := w.keys[of]; h != nil && h.entry != nil {
		h.entry.lifted = true
		w.seen["lifted"]++
	}
	w.keys[of] = &history{partition: partition, unblocked: at}
}

func (w *truth) hit(of pair, partition int, offset int64, m instant) {
	r := w.rules[of.rule]
	h := w.keys[of]
	if h == nil {
		h = &history{partition: partition}
		w.keys[of] = h
	}
	if m.at < h.newest-w.late {
		w.seen["late"]++
		return
	}
	newest := m.at >= h.newest
	h.newest = max(h.newest, m.at)
	w.reached[partition] = max(w.reached[partition], m.at)
	if m.at <= h.unblocked && (!r.Block.Extend || h.until == 0) {
		w.seen["unblocked"]++
		return
	}
	if e := h.entry; e != nil && e.Guarded && m.at >= min(e.From+minute, e.Until) {
		h.waive(r, min(e.From+minute, e.Until))
	}
	h.insert(m)
	if !r.Block.Extend {
		w.sorted(of, h, offset, m, newest)
		return
	}
	inside := m.at < h.until
	broken, at, count := h.broken(r, m.at)
	if broken != nil {
		count = min(count, broken.Hits+1) // count at the hit that broke it, among those of one millisecond
	}
	switch {
	case broken == nil:
		w.seen["counted"]++
	case inside:
		w.extend(r, h, verdict{Entry: blocklist.Entry{Limit: broken.Text, Count: count, From: at, Offset: offset}})
	default:
		w.begin(of, h, offset, verdict{Entry: blocklist.Entry{Limit: broken.Text, Count: count, From: at}})
	}
	h.prune(w.late + longest(r))
}

// sorted judges a hit of a rule whose blocks do not count hits: it sorts all hits, and judges them again when the hit
// is late.
func (w *truth) sorted(of pair, h *history, offset int64, m instant, newest bool) {
	r := w.rules[of.rule]
	blocks := h.open
	switch now := h.lastBlock(); {
	case newest && m.at < now.Until:
		w.seen["blocked"]++
	case newest:
		w.seen["counted"]++
		if limit := h.breaks(r, h.since(m.at+1)-1, now.Until); limit != nil {
			blocks = append(blocks, w.next(of, now, limit, m.at))
		}
	default:
		w.seen["counted"]++
		blocks = w.runAgain(of, h)
	}
	w.take(h, blocks, offset)
	for len(h.open) > 0 && h.open[0].From < h.newest-w.late {
		h.settled, h.open = *h.open[0], h.open[1:]
		h.hits = slices.DeleteFunc(h.hits, func(m instant) bool { return m.at < h.settled.Until })
	}
}

// waive takes a guarded block back: hits count again from an instant on, and the next block has its level.
func (h *history) waive(r *rule.Rule, until int64) {
	if h.waived {
		return
	}
	if !r.Block.Extend {
		h.hits = h.hits[h.since(h.until):]
		h.settled, h.open = verdict{Entry: blocklist.Entry{Until: until, Level: h.level - 1}}, nil
	}
	h.from, h.until, h.level, h.waived = 0, until, h.level-1, true
}

// goesOn reports whether a guarded block is the same offence as the key's last entry, and then takes it back.
func (w *truth) goesOn(h *history, v *verdict) bool {
	e := h.entry
	switch {
	case e == nil || !e.Guarded || e.lifted || v.From >= e.Until:
		return false
	case !v.Guarded:
		w.seen["enforced"]++
		e.replaced = true
		return false
	}
	w.seen["goes on"]++
	h.waive(w.rules[v.Rule], v.From+minute)
	return true
}

// runAgain are the blocks behind the settled one.
func (w *truth) runAgain(of pair, h *history) (blocks []*verdict) {
	now := &h.settled
	for i, m := range h.hits {
		if m.at < now.Until {
			continue
		}
		if limit := h.breaks(w.rules[of.rule], i, now.Until); limit != nil {
			now = w.next(of, now, limit, m.at)
			blocks = append(blocks, now)
		}
	}
	return blocks
}

// breaks is the first limit that is broken by the hits from n on, one after the other. Earlier hits count if they are
// not older than an instant.
func (h *history) breaks(r *rule.Rule, n int, since int64) (first *rule.Limit) {
	fewest := h.hits[n].cost + 1
	for l := range r.Limits {
		limit := &r.Limits[l]
		from := max(h.hits[n].at-limit.Per.Milliseconds()+1, since)
		var before int64
		for i := n - 1; i >= 0 && h.hits[i].at >= from; i-- {
			before += h.hits[i].cost
		}
		if needs := max(1, limit.Hits+1-before); needs < fewest {
			first, fewest = limit, needs
		}
	}
	return first
}

func (h *history) lastBlock() *verdict {
	if n := len(h.open); n > 0 {
		return h.open[n-1]
	}
	return &h.settled
}

// next is the block that begins at an instant after another one.
func (w *truth) next(of pair, before *verdict, limit *rule.Limit, at int64) *verdict {
	r, v := w.rules[of.rule], &verdict{}
	v.Level = 1
	if before.Until > 0 && at < before.Until+r.Block.Forget.Milliseconds() {
		v.Level = before.Level + 1
	}
	v.ID, v.Rule, v.Key, v.Mode = blocklist.ID(of.rule, of.key, at, v.Level), of.rule, of.key, blocklist.Mode(r.Mode)
	v.From, v.Until, v.Limit, v.Count = at, at+lasts(r, v.Level), limit.Text, limit.Hits+1
	return v
}

// take replaces the blocks of a history: an existing one keeps its id.
func (w *truth) take(h *history, blocks []*verdict, offset int64) {
	alone := true // no block before the last one is new or moved
	for i, b := range blocks {
		if i >= len(h.open) {
			b.Offset = offset
			w.guard(h, b)
			if alone = alone && i == len(blocks)-1; alone {
				h.from, h.until, h.level, h.waived = b.From, b.Until, b.Level, false
				if w.goesOn(h, b) {
					return
				}
			}
			w.verdicts[b.ID] = b
			w.seen["broke"]++
			if b.Level > 1 {
				w.seen["again"]++
			}
			continue
		}
		was := h.open[i]
		if was.From != b.From || was.Until != b.Until || was.Level != b.Level || was.Limit != b.Limit {
			was.From, was.Until, was.Level, was.Limit, was.Count, was.Offset, was.moved = b.From, b.Until, b.Level, b.Limit, b.Count, offset, true
			w.seen["moved"]++
			alone = false
		}
		blocks[i] = was
	}
	for _, gone := range h.open[min(len(blocks), len(h.open)):] {
		gone.moved, gone.lifted, gone.Until = true, true, 0 // as if it had never been
		w.seen["gone"]++
	}
	h.open = blocks
	if len(blocks) > 0 {
		h.entry = blocks[len(blocks)-1]
		h.from, h.until, h.level, h.waived = h.entry.From, h.entry.Until, h.entry.Level, false
	}
}

// guard counts a new block, and says whether it is beyond the guard of its rule: it begins in a minute, or after one, with
// more than the partition's share. Keys are counted by the same sketch, which sees each hit once: its error is tested in
// pkg/aggregator/windows.
func (w *truth) guard(h *history, v *verdict) {
	guard := w.rules[v.Rule].Guard
	most := guard.Share(len(w.ends))
	of := begin{v.Rule, h.partition, v.From / minute}
	before := of
	before.minute--
	w.begun[of]++
	v.ByShare = guard.MostShare > 0 && w.keysOf[h.partition].Begins(v.Rule, rule.Guard{MostShare: guard.MostShare}, len(w.ends),
		stored.Beginning{From: v.From, Again: h.entry != nil && h.entry.From/minute == v.From/minute}) != 0
	switch {
	case guard.MostNew > 0 && (w.begun[of] > most || w.begun[before] > most):
		v.Guarded, v.ByShare, v.Mode = true, false, blocklist.Shadow
		w.seen["guarded"]++
	case v.ByShare:
		v.Guarded, v.Mode = true, blocklist.Shadow
		w.seen["guarded by share"]++
	}
}

// begin starts block v.
func (w *truth) begin(of pair, h *history, offset int64, v verdict) {
	r := w.rules[of.rule]
	again := h.until > 0 && v.From < h.until+r.Block.Forget.Milliseconds()
	if !again {
		h.level = 0
	}
	h.level++
	h.from, h.until, h.waived = v.From, v.From+lasts(r, h.level), false
	v.ID, v.Rule, v.Key, v.Until, v.Level = blocklist.ID(of.rule, of.key, h.from, h.level), of.rule, of.key, h.until, h.level
	v.Mode, v.Offset = blocklist.Mode(r.Mode), offset
	w.guard(h, &v)
	if w.goesOn(h, &v) {
		return
	}
	h.entry = &v
	w.verdicts[v.ID] = &v
	w.seen["broke"]++
	if h.level > 1 {
		w.seen["again"]++
	}
}

// extend moves the end of the block in which a limit was broken, as in v, when less than half of it is left.
func (w *truth) extend(r *rule.Rule, h *history, v verdict) {
	if h.waived {
		return
	}
	if whole := lasts(r, h.level); v.From >= h.from && 2*(h.until-v.From) < whole {
		h.until = v.From + whole
		h.entry.Until, h.entry.Limit, h.entry.Count, h.entry.Offset = h.until, v.Limit, v.Count, v.Offset
		w.seen["extended"]++
	}
}

func lasts(r *rule.Rule, level int) int64 {
	all := append([]time.Duration{r.Block.For}, r.Block.Then...)
	return all[min(level, len(all))-1].Milliseconds()
}

func longest(r *rule.Rule) int64 {
	var per time.Duration
	for _, l := range r.Limits {
		per = max(per, l.Per)
	}
	return per.Milliseconds()
}

// since is the index of the first hit at t or later.
func (h *history) since(t int64) int {
	return sort.Search(len(h.hits), func(i int) bool { return h.hits[i].at >= t })
}

func (h *history) insert(m instant) {
	h.hits = slices.Insert(h.hits, h.since(m.at+1), m)
}

// prune drops hits that can matter to no check any more.
func (h *history) prune(keep int64) {
	if gone := h.since(h.newest - keep); gone > 100 {
		h.hits = slices.Delete(h.hits, 0, gone)
	}
}

// broken is the first limit of a rule that the hits break, at the first instant whose window includes a hit at t.
func (h *history) broken(r *rule.Rule, t int64) (limit *rule.Limit, at, count int64) {
	for i := h.since(t); i < len(h.hits); i++ {
		at := h.hits[i].at
		for l := range r.Limits {
			per := r.Limits[l].Per.Milliseconds()
			if at-per >= t {
				continue
			}
			if count := h.within(at, per); count > r.Limits[l].Hits {
				return &r.Limits[l], at, count
			}
		}
	}
	return nil, 0, 0
}

// within counts the hits in (at-per, at], without those before the end of a block that does not count them.
func (h *history) within(at, per int64) (n int64) {
	if len(h.open) > 0 || h.settled.Until > 0 {
		return h.withinSince(at, per, h.until)
	}
	return h.withinSince(at, per, 0)
}

func (h *history) withinSince(at, per, since int64) (n int64) {
	for i := h.since(max(at-per+1, since)); i < len(h.hits) && h.hits[i].at <= at; i++ {
		n += h.hits[i].cost
	}
	return n
}

// lasts reports whether the last entry lasts at an instant.
func (h *history) lasts(at int64) bool { return h.entry != nil && h.entry.Until > at }

// clear is the time from which the history has no effect.
func (h *history) clear(r *rule.Rule) int64 {
	var t int64
	if n := len(h.hits); n > 0 {
		t = h.hits[n-1].at + longest(r)
	}
	switch {
	case h.waived && h.level == 0:
		t = max(t, h.until)
	case h.until > 0:
		t = max(t, h.until+r.Block.Forget.Milliseconds())
	}
	return t
}
