package publishing

import (
	"time"

	"weir/pkg/aggregator/windows"
	"weir/pkg/blocklist"
	"weir/pkg/window"
)

// A Cause is the hit that led to an outcome.
type Cause struct {
	Source string
	Item   int64 // its place in its batch; windows.Waited where it waited for the store
}

// Decide notes in a window what follows from a hit that began, extended or moved a block, and appends what is to be
// published of it.
func (p *Publisher) Decide(to []Publication, w *windows.Window, o window.Outcome, cause Cause) []Publication {
	if o.Event == window.Extended {
		return p.block(to, w, o, cause)
	}
	for _, other := range w.State.Others() {
		to = p.other(to, w, other, cause)
	}

	if o.Event == window.Broke || w.Verdict == nil {
		return p.block(to, w, o, cause)
	}
	p.move(w, o)
	return to
}

// other is for a block that is not its key's last, and so not on the list: that it was begun or moved.
func (p *Publisher) other(to []Publication, w *windows.Window, o window.Outcome, cause Cause) []Publication {
	now := p.list.config.Now()
	v := &windows.Verdict{Decided: now.UnixMilli()}
	takeOver(v, w, o)
	v.Guarded = p.guards(w, v, o, cause)
	if !v.Live(now.UnixMilli()) {
		return to
	}
	event := blocklist.EventBlocked
	if o.Event == window.Moved {
		event = blocklist.EventCorrected
	}
	p.list.log.verdict(p.of.Logger, now, event, w, v)
	return append(to, Publication{entry: entryOf(w.Rule, w.Key(), v), event: event, unlisted: true})
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
	listed := w.Verdict
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

// guards returns which bound of the guard of a window's rule keeps a verdict from being enforced. A block that begins is
// counted. Another one stays as it was.
func (p *Publisher) guards(w *windows.Window, v *windows.Verdict, o window.Outcome, cause Cause) windows.Beyond {
	before := w.Verdict
	if o.Event != window.Broke {
		if rule, key := w.Rule.Name, w.Key(); before != nil && before.ID(rule, key) == v.ID(rule, key) {
			return before.Guarded
		}
		return 0
	}
	if w.Rule.Spec == nil || w.Rule.Spec.Guard.Off() {
		return 0
	}
	return p.find.set.Guard.Begins(w.Rule.Name, w.Rule.Spec.Guard, p.list.config.Partitions, windows.Beginning{
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

	v := *w.Verdict
	v.Ended, v.Lifted, v.Generation, v.Offset = now.UnixMilli(), true, w.Generation, w.Offset
	w.Verdict = &v
	p.list.log.verdict(p.of.Logger, now, blocklist.EventLifted, w, &v)
	if !v.Listed {
		return to
	}

	return append(to, published(w, blocklist.EventLifted))
}
