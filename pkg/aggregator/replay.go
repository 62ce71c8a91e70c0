package aggregator

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"strings"

	"weir/pkg/aggregator/windows"
	"weir/pkg/blocklist"
)

// A replay is the reading again of hits that the windows have already. What these say is published again, once a key
// and checkpoint: the former owner may not have published it.
type replay struct {
	touched map[string]struct{} // names of the windows to publish
}

// replayed notes that hits were skipped which a window has already.
func (p *partition) replayed(w *windows.Window) {
	if w.Verdict == nil || !w.Verdict.Listed {
		return
	}
	if p.replay.touched == nil {
		p.replay.touched = map[string]struct{}{}
	}
	p.replay.touched[w.Name] = struct{}{}
}

// publishReplayed publishes what the replay has touched, and what late hits have moved.
func (p *partition) publishReplayed(ctx context.Context) error {
	if len(p.replay.touched)+len(p.corrections) == 0 {
		return nil
	}
	replayed, corrected := p.windowsOf(maps.Keys(p.replay.touched)), p.windowsOf(maps.Keys(p.corrections))
	if err := p.windows.Load(ctx); err != nil {
		return err
	}

	for _, w := range corrected {
		if err := p.correct(ctx, w); err != nil {
			return err
		}
	}

	for _, w := range replayed {
		if _, left := p.replay.touched[w.Name]; !left {
			continue
		}
		if err := p.sayAgain(ctx, w); err != nil {
			return err
		}
	}

	p.replay.touched, p.corrections = nil, nil
	p.windows.Settle()
	return nil
}

// windowsOf finds windows by their names, or wants them. Those whose rule is gone are left out.
func (p *partition) windowsOf(names iter.Seq[string]) []*windows.Window {
	var found []*windows.Window
	for name := range names {
		if w := p.window(name); w != nil {
			found = append(found, w)
		}
	}
	return found
}

// correct publishes that an entry has changed, also where its block is over by that: on the list it may last. The event
// is that of a beginning where no event of the block may have been published yet.
func (p *partition) correct(ctx context.Context, w *windows.Window) error {
	first, waits := p.corrections[w.Name]
	if !waits {
		return nil
	}

	_, again := p.replay.touched[w.Name]
	delete(p.corrections, w.Name)
	delete(p.replay.touched, w.Name)
	if w.Verdict == nil || !w.Verdict.Listed || w.Verdict.Ended != 0 {
		return nil
	}

	event := blocklist.EventCorrected
	if first || again {
		event = blocklist.EventBlocked
	}

	p.metrics.corrected.Inc()
	p.logged.verdict(p.logger, p.config.Now(), event, w, w.Verdict)
	return p.publish(ctx, w, event)
}

// sayAgain publishes what a window says, with its event, unless that is over.
func (p *partition) sayAgain(ctx context.Context, w *windows.Window) error {
	v := w.Verdict
	if v == nil || !v.Listed || v.Until <= p.config.Now().UnixMilli() && !v.Moved() {
		return nil
	}
	event := blocklist.EventBlocked
	switch {
	case v.Lifted:
		event = blocklist.EventLifted
	case v.Ended != 0:
		event = blocklist.EventEnded
	}
	return p.publish(ctx, w, event)
}

// window finds a window by its name, or wants it; nil where its rule is gone.
func (p *partition) window(name string) *windows.Window {
	if w, _ := p.windows.FindNamed(name); w != nil {
		return w
	}
	ruleName, _, _ := strings.Cut(name, "/")
	rule := p.rules.named(ruleName)
	if rule == nil {
		return nil
	}
	return p.windows.Want(name, rule)
}

// A superseded record of the list may differ from the last one that its key's owner published.
type superseded struct {
	name  string
	entry *blocklist.Entry // nil for a record without a value: it must not hide an entry that is live
}

// heal publishes again what records of others, which came late, stand in front of. A compacted log keeps only the last.
func (p *partition) heal(ctx context.Context) error {
	if p.storeRests() || p.windows.Waiting() > 0 {
		return nil
	}
	for p.takeLates(); len(p.lates) > 0; p.takeLates() {
		some := p.lates[:min(walkPairs, len(p.lates))]
		found := make([]*windows.Window, len(some))
		for i, late := range some {
			found[i] = p.window(late.name)
		}

		if err := p.windows.Load(ctx); err != nil {
			return err
		}
		for i, late := range some {
			if err := p.healOne(ctx, found[i], late); err != nil {
				return err
			}
		}

		p.lates = p.lates[len(some):]
	}

	p.windows.Settle()
	return nil
}

// takeLates takes the late records that others found. Each is kept until it is healed.
func (p *partition) takeLates() {
	for {
		select {
		case late := <-p.heals:
			p.lates = append(p.lates, late)
		default:
			return
		}
	}
}

func (p *partition) healOne(ctx context.Context, w *windows.Window, late superseded) error {
	if w == nil {
		return nil
	}
	if v := w.Verdict; v == nil || !v.Listed || !overwritten(w, late.entry, p.config.Now().UnixMilli()) {
		return nil
	}
	return p.publish(ctx, w, "")
}

// overwritten reports whether a record of the list that came after that of a window's verdict is an older one. Of records that
// the same batch of hits led to, the newest is the one that says what the verdict says: an owner that was stopped for
// long may have counted only a part of that batch.
func overwritten(w *windows.Window, e *blocklist.Entry, now int64) bool {
	v := w.Verdict
	if e == nil {
		return v.Live(now)
	}
	if v.Until <= now && e.Until <= now {
		return false
	}
	if order := cmp.Or(cmp.Compare(v.Generation, e.Generation), cmp.Compare(v.Offset, e.Offset)); order != 0 {
		return order > 0
	}

	mine := entryOf(w.Rule, w.Key(), v)
	return mine.ID != e.ID || mine.From != e.From || mine.Until != e.Until || mine.Ended != e.Ended || mine.Limit != e.Limit ||
		mine.Count != e.Count
}
