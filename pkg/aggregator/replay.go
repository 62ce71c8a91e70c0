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

// publishReplayed publishes what the replay has touched.
func (p *partition) publishReplayed(ctx context.Context) error {
	if len(p.replay.touched) == 0 {
		return nil
	}
	var windows []*keyed
	for name := range p.replay.touched {
		if w := p.window(name); w != nil {
			windows = append(windows, w)
		}
	}
	if err := p.load(ctx); err != nil {
		return err
	}
	p.replay.touched = nil
	for _, w := range windows {
		if err := p.sayAgain(ctx, w); err != nil {
			return err
		}
	}
	p.windows.settle()
	return nil
}

// sayAgain publishes what a window says, with its event, unless that is over.
func (p *partition) sayAgain(ctx context.Context, w *keyed) error {
	v := w.verdict
	if v == nil || !v.Listed || v.Until <= p.config.Now().UnixMilli() {
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
