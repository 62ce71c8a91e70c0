package publishing

import (
	"slices"
	"time"

	"weir/pkg/aggregator/windows"
	"weir/pkg/blocklist"
	"weir/pkg/window"
)

// A Cause is the hit that led to an outcome.
type Cause struct {
	Source string
	Item   int64 // its place in its batch; windows.Waited where it waited for the store, windows.ByTime where no hit did
}

// Decide notes in a window what follows from a hit that began, extended or moved a block, and appends what is to be
// published of it.
func (p *Publisher) Decide(to []Publication, w *windows.Window, o window.Outcome, cause Cause) []Publication {
	switch o.Event {
	case window.Extended:
		return p.block(to, w, o, cause)
	case window.Moved:
		for _, gone := range w.State.Gone() {
			p.groups.began(w, gone)
		}
	case window.Undone:
		return p.undone(to, w, o)
	}
	for _, other := range w.State.Others() {
		to = p.other(to, w, other, cause)
	}

	if o.Event == window.Broke || w.Verdict == nil {
		return p.block(to, w, o, cause)
	}
	if w.Verdict.Lifted {
		return p.listAgain(to, w, o)
	}
	p.move(w, o)
	if !w.Verdict.HeldBack(w.Rule) {
		p.groups.began(w, o)
	}
	return to
}

// Rejudged gathers what follows from a late hit that moved blocks of a key, but not the last one.
func (p *Publisher) Rejudged(w *windows.Window) {
	for _, other := range w.State.Others() {
		p.groups.began(w, other)
	}
}

// undone is for the block of a group that never was, or whose members were unblocked: it ends. The one before may last
// longer now, and is listed again then.
func (p *Publisher) undone(to []Publication, w *windows.Window, o window.Outcome) []Publication {
	now := p.list.config.Now()
	if w.Verdict == nil {
		return to
	}
	if first, level := w.Verdict.AtFirst(); first == o.First && level == o.FirstLevel && w.Verdict.Live(now.UnixMilli()) {
		to = p.lift(to, w, now)
	}

	from, _, level, _ := w.State.Block()
	others := w.State.Others()
	i := slices.IndexFunc(others, func(other window.Outcome) bool { return other.From == from && other.Level == level })
	if i < 0 {
		return to
	}
	return p.listAgain(to, w, others[i])
}

// listAgain is for the block of a group before one that was lifted: it has moved, and is listed again if it lasts.
func (p *Publisher) listAgain(to []Publication, w *windows.Window, o window.Outcome) []Publication {
	now := p.list.config.Now()
	if o.Until <= now.UnixMilli() {
		return to
	}
	v := &windows.Verdict{Decided: now.UnixMilli(), Guarded: w.Verdict.Guarded, Listed: true}
	takeOver(v, w, o)
	if w.Rule.Spec != nil && w.Rule.Spec.GuardsTraffic() {
		v.Guarded = p.guards(w, v, o, Cause{})
	}
	w.Verdict, w.Index = v, windows.IndexSet
	p.list.log.verdict(p.of.Logger, now, blocklist.EventCorrected, w, v)
	return append(to, published(w, blocklist.EventCorrected))
}

// other is for a block that is not its key's last, and so not on the list: that it was begun or moved.
func (p *Publisher) other(to []Publication, w *windows.Window, o window.Outcome, cause Cause) []Publication {
	now := p.list.config.Now()
	v := &windows.Verdict{Decided: now.UnixMilli()}
	takeOver(v, w, o)
	v.Guarded = p.guards(w, v, o, cause)
	if !v.HeldBack(w.Rule) {
		p.groups.began(w, o)
	}
	event := blocklist.EventBlocked
	if o.Event == window.Moved {
		event = blocklist.EventCorrected
	}
	before := w.Verdict // an entry that the list had is corrected, also where its block is over by that
	wasListed := before != nil && before.Listed && before.ID(w.Rule.Name, w.Key()) == v.ID(w.Rule.Name, w.Key())
	if !v.Live(now.UnixMilli()) && !wasListed {
		return to
	}
	p.list.log.verdict(p.of.Logger, now, event, w, v)
	return append(to, Publication{entry: entryIn(w, v), event: event, unlisted: true})
}

// takeOver has a verdict be of the block of an outcome.
func takeOver(v *windows.Verdict, w *windows.Window, o window.Outcome) {
	v.From, v.Until, v.Count, v.Level, v.Limit = o.From, o.Until, o.Count, o.Level, w.Rule.LimitText(o.Limit)
	v.Generation, v.Offset = w.Generation, w.Offset
	v.First, v.FirstLevel = o.First, o.FirstLevel
	if o.First == o.From && o.FirstLevel == o.Level {
		v.First, v.FirstLevel = 0, 0
	}
}

// move notes that a late hit has shown the last block to be another than it was. It is published with the next
// checkpoint: where sources come one behind the other, each of many hits moves the block a little.
func (p *Publisher) move(w *windows.Window, o window.Outcome) {
	v := *w.Verdict
	takeOver(&v, w, o)
	v.Sent = false
	w.Verdict = &v
	if v.Listed || v.Live(p.list.config.Now().UnixMilli()) {
		p.changed.moved(w)
	}
}

// block notes a broken limit and publishes it, unless the block is over already.
func (p *Publisher) block(to []Publication, w *windows.Window, o window.Outcome, cause Cause) []Publication {
	to = p.changed.correct(to, w)
	now := p.list.config.Now()
	event := blocklist.EventBlocked
	v := &windows.Verdict{From: o.From, Until: o.Until, Decided: now.UnixMilli()}
	if o.Event == window.Extended && w.Verdict != nil && w.Verdict.From == o.From {
		*v = *w.Verdict
		v.Until = o.Until
		if v.Listed {
			event = blocklist.EventExtended
		}
	}

	v.Generation, v.Offset, v.Count, v.Level, v.Limit = w.Generation, w.Offset, o.Count, o.Level, w.Rule.LimitText(o.Limit)
	v.Guarded = p.guards(w, v, o, cause)
	if o.Event != window.Extended && !v.HeldBack(w.Rule) {
		p.groups.began(w, o)
	}
	listed := w.Verdict
	if o.Event == window.Broke && v.Guarded != 0 && listed.GoesOn(w.Rule, o.From) && len(w.State.Others()) == 0 {
		p.goOn(w, v, now)
		return to
	}
	w.Verdict = v
	if !v.Live(now.UnixMilli()) {
		p.list.config.Over()
		p.list.log.judge(cause.Source, false)
		p.changed.replaced(w, listed, now.UnixMilli())
		return to
	}

	p.list.log.judge(cause.Source, true)
	v.Listed, w.Index = true, windows.IndexSet
	p.list.config.Blocked(w.Rule, v, max(0, now.Sub(time.UnixMilli(v.From))))
	if v.HeldBack(w.Rule) {
		p.list.guarded(w.Rule, v.Guarded, now)
	}
	p.list.log.verdict(p.of.Logger, now, event, w, v)
	return append(to, published(w, event))
}

// goOn is for a key that has broken its limit again while its guarded block lasts, and is guarded again. That counts for the
// guard only: the entry stays as it is. A minute later the key's hits count again.
func (p *Publisher) goOn(w *windows.Window, v *windows.Verdict, now time.Time) {
	w.Rule.Policy.Waive(&w.State, v.From+time.Minute.Milliseconds())
	if w.Verdict.Live(now.UnixMilli()) {
		p.list.guarded(w.Rule, v.Guarded, now)
	}
}

// guards returns which bound of the guard of a window's rule keeps a verdict from being enforced. A block that begins is
// counted. Another one stays as it was.
func (p *Publisher) guards(w *windows.Window, v *windows.Verdict, o window.Outcome, cause Cause) windows.Beyond {
	before, name, key := w.Verdict, w.Rule.Name, w.Key()
	if o.Event != window.Broke && before != nil && before.ID(name, key) == v.ID(name, key) {
		return before.Guarded
	}
	if w.Rule.Spec == nil || w.Rule.Spec.Guard.Off() {
		return 0
	}

	guard := w.Rule.Spec.Guard
	if w.Rule.Spec.GuardsTraffic() {
		if p.find.set.Traffic.Exceeds(name, key, guard.MostShare, o.From, w.Rule.Policy.Longest().Milliseconds()) {
			return windows.MostShare
		}
		guard.MostShare = 0
	}
	if o.Event != window.Broke {
		return 0
	}
	return p.find.set.Guard.Begins(name, guard, p.list.config.Partitions, windows.Beginning{
		From: o.From, At: windows.Place{Generation: w.Generation, Offset: w.Offset, Item: cause.Item}, Again: before.BeganWith(o.From)})
}

// Unblock forgets a key's window and level, as of an instant, and appends what takes it off the list.
func (p *Publisher) Unblock(to []Publication, w *windows.Window, at int64) []Publication {
	now := p.list.config.Now()
	w.Rule.Policy.Unblock(&w.State, at)
	to = p.changed.correct(to, w)
	if w.Verdict == nil || !w.Verdict.Live(now.UnixMilli()) {
		return to
	}

	first, level := w.Verdict.AtFirst()
	p.groups.block(w, w.Verdict.From, first, level, true)
	return p.lift(to, w, now)
}

// lift ends the last block of a window.
func (p *Publisher) lift(to []Publication, w *windows.Window, now time.Time) []Publication {
	v := *w.Verdict
	v.Ended, v.Lifted, v.Generation, v.Offset = now.UnixMilli(), true, w.Generation, w.Offset
	w.Verdict = &v
	p.list.log.verdict(p.of.Logger, now, blocklist.EventLifted, w, &v)
	if !v.Listed {
		return to
	}

	return append(to, published(w, blocklist.EventLifted))
}
