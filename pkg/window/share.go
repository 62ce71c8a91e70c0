package window

// A Share has a limit be of the share of hits that match: of the hits in (t-W, t] more than Over match, and there are N at
// least. It is for one limit of N per W, and for Sliding.
type Share struct {
	Of   uint64 // not 0; it says what the hits match: states of something else begin again
	Over int64  // in millionths: 1 to 999,999
}

// Bounds of a Share.
const (
	MostOver    = wholeShare - 1
	MostInShare = 1 << 30 // hits that a limit may need at least
	wholeShare  = 1_000_000
)

// share counts what share of a key's hits match: a hit at t breaks the limit when of the hits in (t-W, t], that one and all of
// its instant included, at least N came, and more than the share match.
//
// A late hit that does not match may lower the share. So nothing is decided before all is known: an offence at t is pending
// until no hit can come any more that is as old as t. Then a block begins that is [t+Late, t+Late+For): no hit from t on
// counts up to its end. Late hits move an offence that is pending, and have it vanish, but no block ever moves. The key's
// next hit behind t+Late decides it, or Judge.
//
// The hits are kept for Late and W, in cells: one for each millisecond that had hits. A key has mostCells of them. Up to
// that, blocks are those of the sorted log, in any order of arrival. For a key with more, cells are joined, two by two, until
// at most half as many are left. A cell is then up to (W + Late)/2048 long. Hits that match count in a window if their cell
// lies in it completely, the others if any part of it may, and all hits of a cell are judged at its end: so the error can only
// let through. Cells are a millisecond long again when none are kept.
//
// A hit costs a few comparisons. A late hit has those that are newer judged again.
type share struct {
	of    uint64
	over  int64 // in millionths
	least int64 // N
	per   int64 // W
	late  int64
	lasts int64 // a block, at least
	most  int   // cells
}

const mostCells = DefaultRemember

// BytesOfShare is the memory that a key may take with a limit of a share.
const BytesOfShare = bytesOfCell * (mostCells + mostCells/4)

const bytesOfCell = 16

func newShare(c *Config) (algorithm, error) {
	l := c.Limits[0]
	return &share{of: c.Share.Of, over: c.Share.Over, least: l.Hits, per: l.Per.Milliseconds(), late: c.Late.Milliseconds(), lasts: shortestOf(&c.Block), most: mostCells}, nil
}

// A shared is the hits of a key that are kept, where a limit is of a share.
type shared struct {
	cells   []shareCell // in the order of time
	span    int64       // how many milliseconds a cell is long: at lies in the cell of slot at/span
	pending int64       // when the first offence happened that is not decided yet; Never
	window  shareWindow
}

// A shareCell is the hits of a slot.
type shareCell struct {
	slot             int64
	matching, others uint32
}

// A shareWindow counts the window that ends with a cell.
type shareWindow struct {
	last     int   // its last cell; -1 before the first. All behind it are behind a pending offence
	low      int   // the first cell that lies in the window completely
	high     int   // the first that may have hits in it
	matching int64 // in cells from low on
	others   int64 // likewise
	edge     int64 // others in cells from high to low
}

func newShared() *shared { return &shared{span: 1, pending: Never, window: shareWindow{last: -1}} }

func (v *shared) start(i int) int64 { return v.cells[i].slot * v.span }
func (v *shared) end(i int) int64   { return v.start(i) + v.span - 1 }

// hitPending counts a hit with a value, where Judge decides. Its outcome is that of the offence that the time of the hit
// decides, if there is one.
func (p *Policy) hitPending(s *State, at int64, value uint64) Outcome {
	if at < s.newest-p.late || at < 0 || at > MaxTime {
		return Outcome{Event: Late}
	}

	s.newest = max(s.newest, at)
	s.needRare()
	r := s.rare
	switch {
	case p.share != nil && r.shared == nil:
		r.shared = newShared()
	case p.sketch != nil && r.sketched == nil:
		r.sketched = newSketched()
	}

	o := p.Judge(s, s.newest)
	switch {
	case at < r.until:
		if o.Event == Counted {
			o = r.outcome(Blocked, unbroken)
		}
	case p.share != nil:
		p.share.add(s, at, value == 1)
	default:
		p.sketch.add(s, at, value)
	}
	return o
}

// Judge decides what of s is pending, where a limit is of a share or of an estimate, if no hit counts any more that is older
// than the instant now less Late. The outcome is Broke if a block begins.
func (p *Policy) Judge(s *State, now int64) Outcome {
	switch {
	case p.Due(s) >= now:
		return Outcome{}
	case p.sketch != nil:
		return p.judgeSketch(s, now)
	}
	return p.beginShare(s)
}

// Pending is the instant of the offence of s that is not decided yet, which an estimate may show to be none; Never without.
func (p *Policy) Pending(s *State) int64 {
	switch {
	case s.rare == nil:
	case p.sketch != nil && s.rare.sketched != nil:
		return s.rare.sketched.pending
	case p.share != nil && s.rare.shared != nil:
		return s.rare.shared.pending
	}
	return Never
}

// Due is the instant behind which Judge decides the offence of s that is pending; Never if there is none.
func (p *Policy) Due(s *State) int64 {
	pending := p.Pending(s)
	if pending == Never {
		return Never
	}
	return pending + p.late
}

// Share is how many hits of s match at an instant, and how many there are, where a limit is of a share.
func (p *Policy) Share(s *State, at int64) (matching, all int64) {
	if p.share == nil || s.rare == nil || s.rare.shared == nil {
		return 0, 0
	}
	v := s.rare.shared
	for i, cell := range v.cells {
		if v.start(i) > at-p.share.per && v.start(i) <= at {
			matching += int64(cell.matching)
			all += int64(cell.matching) + int64(cell.others)
		}
	}
	return matching, all
}

// beginShare begins the block of the pending offence.
func (p *Policy) beginShare(s *State) Outcome {
	r := s.rare
	v := r.shared
	now := p.next(s, r.last(), broken{0, v.pending + p.late, v.window.matching})
	r.set(now)
	// All that are kept came before its end.
	*v = shared{cells: v.cells[:0], span: 1, pending: Never, window: shareWindow{last: -1}}
	return now.outcome(Broke)
}

// add adds a hit that counts.
func (d *share) add(s *State, at int64, matches bool) {
	v := s.rare.shared
	n := len(v.cells)
	slot := at
	if v.span > 1 {
		slot = at / v.span
	}
	if n > 0 && v.cells[n-1].slot >= slot {
		d.addBehind(s, at, matches)
		return
	}
	if n == cap(v.cells) {
		d.makeRoom(s)
		n, slot = len(v.cells), at/v.span
		if n > 0 && v.cells[n-1].slot >= slot { // cells have been joined
			d.addBehind(s, at, matches)
			return
		}
	}

	v.cells = append(v.cells, shareCell{slot: slot})
	v.cells[n].count(matches)
	if v.pending == Never {
		d.judge(v, n)
	}
}

func (c *shareCell) count(matches bool) {
	switch {
	case matches:
		c.matching++
	default:
		c.others++
	}
}

// addBehind adds a hit that lies in the newest cell or before it.
func (d *share) addBehind(s *State, at int64, matches bool) {
	v := s.rare.shared
	i := v.find(at / v.span)
	isNew := i == len(v.cells) || v.cells[i].slot != at/v.span
	if isNew && len(v.cells) == cap(v.cells) {
		d.makeRoom(s)
		i = v.find(at / v.span)
		isNew = i == len(v.cells) || v.cells[i].slot != at/v.span
	}

	again := i <= v.window.last || isNew && i == v.window.last+1 && v.pending == Never
	if again {
		d.rewind(v, i)
	}
	if isNew {
		v.cells = append(v.cells, shareCell{})
		copy(v.cells[i+1:], v.cells[i:])
		v.cells[i] = shareCell{slot: at / v.span}
	}
	v.cells[i].count(matches)
	if again {
		v.pending = Never
		d.judge(v, i)
	}
}

// find is the place of a slot's cell, or of the one that it would stand before.
func (v *shared) find(slot int64) int {
	lo := 0
	for hi := len(v.cells); lo < hi; {
		if mid := int(uint(lo+hi) / 2); v.cells[mid].slot >= slot {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// judge judges cells from one on, up to the first offence. The window ends before it.
func (d *share) judge(v *shared, from int) {
	for i := from; i < len(v.cells); i++ {
		d.step(v, i)
		if d.exceeded(&v.window) {
			v.pending = v.end(i)
			return
		}
	}
}

func (d *share) exceeded(w *shareWindow) bool {
	return w.matching+w.others >= d.least && w.matching*wholeShare > d.over*(w.matching+w.others+w.edge)
}

// step moves the window on by a cell.
func (d *share) step(v *shared, i int) {
	w, cells := &v.window, v.cells
	w.last = i
	w.matching += int64(cells[i].matching)
	w.others += int64(cells[i].others)
	leaves := v.end(i) - d.per
	for w.low <= i && v.start(w.low) <= leaves {
		w.matching -= int64(cells[w.low].matching)
		w.others -= int64(cells[w.low].others)
		w.edge += int64(cells[w.low].others)
		w.low++
	}
	leaves = v.start(i) - d.per
	for w.high < w.low && v.end(w.high) <= leaves {
		w.edge -= int64(cells[w.high].others)
		w.high++
	}
}

// rewind moves the window back, so that it ends before a cell.
func (d *share) rewind(v *shared, before int) {
	w, cells := &v.window, v.cells
	if before == 0 {
		*w = shareWindow{last: -1}
		return
	}
	for ; w.last >= before; w.last-- {
		switch {
		case w.last >= w.low:
			w.matching -= int64(cells[w.last].matching)
			w.others -= int64(cells[w.last].others)
		case w.last >= w.high:
			w.edge -= int64(cells[w.last].others)
		}
	}

	w.low = min(w.low, w.last+1)
	w.high = min(w.high, w.low)
	for i, leaves := w.low-1, v.end(w.last)-d.per; i >= 0 && v.start(i) > leaves; i-- {
		if i >= w.high {
			w.edge -= int64(cells[i].others)
		}
		w.matching += int64(cells[i].matching)
		w.others += int64(cells[i].others)
		w.low = i
	}
	w.high = min(w.high, w.low)

	for i, leaves := w.high-1, v.start(w.last)-d.per; i >= 0 && v.end(i) > leaves; i-- {
		w.edge += int64(cells[i].others)
		w.high = i
	}
}

// makeRoom makes room for one more cell: those go that are too old to answer a question. Where these are few, more are kept
// from now on, and where a key has as many as it may have, cells are joined.
func (d *share) makeRoom(s *State) {
	v := s.rare.shared
	n := len(v.cells)
	gone := d.old(s)
	switch {
	case gone > n/4:
		d.drop(v, gone)
	case n < d.most+d.most/4: // dropping moves all that stays, so it has to free a fixed part
		grown := make([]shareCell, n, min(n+n/4+4, d.most+d.most/4))
		copy(grown, v.cells)
		v.cells = grown
	default:
		d.drop(v, gone)
		d.fit(s)
	}
}

// fit joins cells until they are no more than a key may have.
func (d *share) fit(s *State) {
	v := s.rare.shared
	if len(v.cells) <= d.most {
		return
	}
	for len(v.cells) > d.most/2 {
		v.join()
	}
	d.judgeAgain(s)
}

// old is how many cells are too old to be in the window of a hit that can still come.
func (d *share) old(s *State) int {
	v := s.rare.shared
	return v.find((s.newest-d.late-d.per)/v.span - 1)
}

// drop drops the oldest cells. If some of them are in the window, it is older than all that can still come.
func (d *share) drop(v *shared, n int) {
	w := &v.window
	for ; w.high < n && w.high < w.low; w.high++ {
		w.edge -= int64(v.cells[w.high].others)
	}
	for ; w.low < n; w.low++ {
		w.matching -= int64(v.cells[w.low].matching)
		w.others -= int64(v.cells[w.low].others)
	}
	w.high = max(w.high, n)

	v.cells = v.cells[:copy(v.cells, v.cells[n:])]
	w.last, w.low, w.high = w.last-n, w.low-n, w.high-n
	if len(v.cells) == 0 {
		v.span, v.window = 1, shareWindow{last: -1}
	}
}

// join makes cells twice as long.
func (v *shared) join() {
	v.span *= 2
	n := 0
	for _, cell := range v.cells {
		if cell.slot /= 2; n > 0 && v.cells[n-1].slot == cell.slot {
			v.cells[n-1].matching += cell.matching
			v.cells[n-1].others += cell.others
			continue
		}
		v.cells[n] = cell
		n++
	}
	v.cells = v.cells[:n]
}

// judgeAgain judges all that is not decided, when cells are others than they were.
func (d *share) judgeAgain(s *State) {
	v := s.rare.shared
	v.pending, v.window = Never, shareWindow{last: -1}
	i := 0
	for ; i < len(v.cells) && v.end(i) < s.newest-d.late; i++ {
		d.step(v, i)
	}
	d.judge(v, i)
}

// touch reads what the next hit of s begins with.
func (d *share) touch(s *State) int64 {
	if s.rare == nil || s.rare.shared == nil || len(s.rare.shared.cells) == 0 {
		return 0
	}
	v := s.rare.shared
	return v.cells[len(v.cells)-1].slot
}

func (d *share) clear(s *State) int64 {
	if s.rare == nil || s.rare.shared == nil || len(s.rare.shared.cells) == 0 {
		return 0
	}
	v := s.rare.shared
	clear := v.end(len(v.cells)-1) + d.per + d.late
	if v.pending != Never {
		clear = max(clear, v.pending+d.late+d.lasts)
	}
	return clear
}

// hit counts nothing: Hit leaves hits to hitPending.
func (d *share) hit(*State, int64, int64) broken { return unbroken }

func (d *share) count(s *State, _ int, at int64) int64 {
	p := Policy{share: d}
	matching, _ := p.Share(s, at)
	return matching
}

func (d *share) forget(s *State, _ int64) {
	if s.rare != nil {
		s.rare.shared = nil
	}
}

// Shares are not taken: New refuses limits at once, and pkg/rule inline rules.
func (d *share) room(*State, int, int64) int64             { return 0 }
func (d *share) admits(*State, int, int64, int64) int64    { return Never }
func (d *share) settle(*State, int64, int64, int64, int64) {}
func (d *share) shapes() []shape                           { return nil }
