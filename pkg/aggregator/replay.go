package aggregator

import (
	"context"
	"strings"

	"weir/pkg/blocklist"
)

// A replay is the reading again of hits that the windows have already. What these say is published again, once a key
// and checkpoint: whoever had the partition before may not have come to it.
type replay struct {
	end     int64               // of the log at the time of taking; unknown until it was read
	touched map[string]struct{} // names of the windows to publish
}

func (r *replay) over(offset int64) bool {
	return r.end != unknown && offset >= r.end && len(r.touched) == 0
}

// replayed notes that hits were skipped which a window has already.
func (p *partition) replayed(w *keyed) {
	if w.verdict == nil || !w.verdict.Listed {
		return
	}
	if p.replay.touched == nil {
		p.replay.touched = map[string]struct{}{}
	}
	p.replay.touched[w.name] = struct{}{}
}

// publishReplayed publishes what the replay has touched, and what late hits have moved.
func (p *partition) publishReplayed(ctx context.Context) error {
	if len(p.replay.touched)+len(p.corrections) == 0 {
		return nil
	}
	for name := range p.corrections {
		delete(p.replay.touched, name)
	}
	replayed, corrected := p.windowsOf(p.replay.touched), p.windowsOf(p.corrections)
	if err := p.load(ctx); err != nil {
		return err
	}
	p.replay.touched, p.corrections = nil, nil
	for _, w := range corrected {
		if err := p.correct(ctx, w); err != nil {
			return err
		}
	}
	for _, w := range replayed {
		if err := p.sayAgain(ctx, w); err != nil {
			return err
		}
	}
	p.windows.settle()
	return nil
}

// windowsOf finds windows by their names, or wants them. Those whose rule is gone are left out.
func (p *partition) windowsOf(names map[string]struct{}) []*keyed {
	var windows []*keyed
	for name := range names {
		if w := p.window(name); w != nil {
			windows = append(windows, w)
		}
	}
	return windows
}

// correct publishes that an entry is another than it was, also where its block is over by that: on the list it may last.
func (p *partition) correct(ctx context.Context, w *keyed) error {
	if w.verdict == nil || !w.verdict.Listed || w.verdict.Ended != 0 {
		return nil
	}
	p.metrics.corrected.Inc()
	p.logged.verdict(p.logger, blocklist.EventCorrected, w, w.verdict)
	return p.publish(ctx, w, blocklist.EventCorrected)
}

// sayAgain publishes what a window says, with its event, unless that is over.
func (p *partition) sayAgain(ctx context.Context, w *keyed) error {
	v := w.verdict
	if v == nil || !v.Listed || v.Until <= p.config.Now().UnixMilli() && !v.moved() {
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
func (p *partition) window(name string) *keyed {
	if w, _ := p.windows.findNamed(name); w != nil {
		return w
	}
	ruleName, _, _ := strings.Cut(name, "/")
	rule := p.rules.named(ruleName)
	if rule == nil {
		return nil
	}
	return p.windows.want(name, rule)
}

// A superseded record of the list is one that says less than its key's owner has published.
type superseded struct {
	name               string
	generation, offset int64 // unknown for a record without a value, which is not to stand in front of what is live
}

// heal publishes again what records of others, which came late, stand in front of. A compacted log keeps only the last.
func (p *partition) heal(ctx context.Context) error {
	if p.storeRests() || len(p.waiting) > 0 {
		return nil
	}
	for p.nextLate() {
		if err := p.healOne(ctx, *p.late); err != nil {
			return err
		}
		p.late = nil
	}
	p.windows.settle()
	return nil
}

// nextLate says whether there is a late record: the last one, until it is healed.
func (p *partition) nextLate() bool {
	if p.late != nil {
		return true
	}
	select {
	case late := <-p.heals:
		p.late = &late
		return true
	default:
		return false
	}
}

func (p *partition) healOne(ctx context.Context, late superseded) error {
	w := p.window(late.name)
	if w == nil {
		return nil
	}
	if err := p.load(ctx); err != nil {
		return err
	}
	v := w.verdict
	if v == nil || !v.Listed || v.Until <= p.config.Now().UnixMilli() || v.Generation < late.generation ||
		v.Generation == late.generation && v.Offset <= late.offset {
		return nil
	}
	if late.generation == unknown && v.Ended != 0 {
		return nil
	}
	return p.publish(ctx, w, "")
}
