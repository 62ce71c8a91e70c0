package publishing

import (
	"log/slog"
	"time"

	"weir/pkg/aggregator/windows"
	"weir/pkg/blocklist"
	"weir/pkg/window"
)

// Verdicts decides what follows from hits that began, extended or moved a block. It notes that in the windows, and returns
// what to publish.
type verdicts struct {
	list    *List
	logger  *slog.Logger
	changed *changed
}

// decide does so for the outcome of a hit.
func (d *verdicts) decide(to []Publication, w *windows.Window, o window.Outcome, source string) []Publication {
	if o.Event == window.Extended {
		return d.block(to, w, o, source)
	}
	for _, other := range w.State.Others() {
		to = d.other(to, w, other)
	}

	if o.Event == window.Broke || w.Verdict == nil {
		return d.block(to, w, o, source)
	}
	d.move(w, o)
	return to
}

// other is for a block that is not its key's last, and so not on the list: that it was begun or moved.
func (d *verdicts) other(to []Publication, w *windows.Window, o window.Outcome) []Publication {
	now := d.list.config.Now()
	v := &windows.Verdict{Decided: now.UnixMilli()}
	takeOver(v, w, o)
	if !v.Live(now.UnixMilli()) {
		return to
	}
	event := blocklist.EventBlocked
	if o.Event == window.Moved {
		event = blocklist.EventCorrected
	}
	d.list.log.verdict(d.logger, now, event, w, v)
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
func (d *verdicts) move(w *windows.Window, o window.Outcome) {
	v := *w.Verdict
	takeOver(&v, w, o)
	v.Sent = false
	w.Verdict = &v
	if v.Listed || v.Live(d.list.config.Now().UnixMilli()) {
		d.changed.moved(w)
	}
}

// block notes a broken limit and publishes it, unless the block is over already.
func (d *verdicts) block(to []Publication, w *windows.Window, o window.Outcome, source string) []Publication {
	to = d.changed.correct(to, w)
	now := d.list.config.Now()
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
	listed := w.Verdict
	w.Verdict = v
	if !v.Live(now.UnixMilli()) {
		d.list.config.Over()
		d.list.log.over(source)
		d.changed.replaced(w, listed, now.UnixMilli())
		return to
	}

	d.list.log.live(source)
	v.Listed, w.Index = true, windows.IndexSet
	d.list.config.Blocked(w.Rule, v.Limit, max(0, now.Sub(time.UnixMilli(v.From))))
	d.list.log.verdict(d.logger, now, event, w, v)
	return append(to, published(w, event))
}

// unblock forgets a key's window and level, and takes it off the list.
func (d *verdicts) unblock(to []Publication, w *windows.Window) []Publication {
	now := d.list.config.Now()
	w.State = window.State{}
	to = d.changed.correct(to, w)
	if w.Verdict == nil || !w.Verdict.Live(now.UnixMilli()) {
		return to
	}

	v := *w.Verdict
	v.Ended, v.Lifted, v.Generation, v.Offset = now.UnixMilli(), true, w.Generation, w.Offset
	w.Verdict = &v
	d.list.log.verdict(d.logger, now, blocklist.EventLifted, w, &v)
	if !v.Listed {
		return to
	}

	return append(to, published(w, blocklist.EventLifted))
}
