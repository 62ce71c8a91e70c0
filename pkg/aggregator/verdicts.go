package aggregator

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"weir/internal/kafka"
	"weir/pkg/blocklist"
	"weir/pkg/hit"
	"weir/pkg/window"
)

// errSend says that a producer took nothing: the context is done, or it is closed.
var errSend = errors.New("not sent")

// A receipt is of what was sent: left counts the messages that are not acknowledged.
type receipt struct{ left atomic.Int32 }

// follow does what follows from a hit that began, extended or moved a block.
func (p *partition) follow(ctx context.Context, w *keyed, o window.Outcome, source string) error {
	if o.Event == window.Extended {
		return p.decide(ctx, w, o, source)
	}
	for _, other := range w.state.Others() {
		if err := p.noteOther(ctx, w, other); err != nil {
			return err
		}
	}
	if o.Event == window.Broke || w.verdict == nil {
		return p.decide(ctx, w, o, source)
	}
	p.move(w, o)
	return nil
}

// noteOther says of a block that is not its key's last, and so not on the list, that it was begun or moved.
func (p *partition) noteOther(ctx context.Context, w *keyed, o window.Outcome) error {
	now := p.config.Now().UnixMilli()
	v := &Verdict{Decided: now}
	v.take(w, o)
	if !v.live(now) {
		return nil
	}
	event := blocklist.EventBlocked
	if o.Event == window.Moved {
		event = blocklist.EventCorrected
	}
	p.logged.verdict(p.logger, event, w, v)
	return p.sendEvent(ctx, entryOf(w.rule, w.key(), v), event, p.sent.add(1))
}

// take takes the block of an outcome over.
func (v *Verdict) take(w *keyed, o window.Outcome) {
	v.From, v.Until, v.Count, v.Level, v.Limit = o.From, o.Until, o.Count, o.Level, w.rule.limitText(o.Limit)
	v.Generation, v.Offset = w.generation, w.offset
	v.First, v.FirstLevel = o.First, o.FirstLevel
	if o.First == o.From && o.FirstLevel == o.Level {
		v.First, v.FirstLevel = 0, 0
	}
}

// move notes that a late hit has shown the last block to be another than it was. It is published with the next
// checkpoint: where sources come one behind the other, each of many hits moves the block a little.
func (p *partition) move(w *keyed, o window.Outcome) {
	v := *w.verdict
	v.take(w, o)
	v.sent = false
	w.verdict = &v
	if !v.Listed && !v.live(p.config.Now().UnixMilli()) {
		return
	}
	if p.corrections == nil {
		p.corrections = map[string]bool{}
	}
	p.corrections[w.name] = p.corrections[w.name] || !v.Listed
	v.Listed, w.index = true, indexSet
}

// decide notes a broken limit and publishes it, unless the block is over already.
func (p *partition) decide(ctx context.Context, w *keyed, o window.Outcome, source string) error {
	if err := p.correct(ctx, w); err != nil {
		return err
	}
	now := p.config.Now().UnixMilli()
	event := blocklist.EventBlocked
	v := &Verdict{From: o.From, Until: o.Until, Decided: now}
	if o.Event == window.Extended && w.verdict != nil && w.verdict.From == o.From {
		*v = *w.verdict
		v.Until = o.Until
		if v.Listed {
			event = blocklist.EventExtended
		}
	}
	v.Generation, v.Offset, v.Count, v.Level, v.Limit = w.generation, w.offset, o.Count, o.Level, w.rule.limitText(o.Limit)
	w.verdict = v
	if !v.live(now) {
		p.metrics.over.Inc()
		p.logged.over(source)
		return nil
	}
	p.logged.live(source)
	v.Listed, w.index = true, indexSet
	p.metrics.blocks(w.rule, v.Limit).Inc()
	p.metrics.delay(w.rule).Observe(float64(max(0, now-v.From)) / 1000)
	p.logged.verdict(p.logger, event, w, v)
	return p.publish(ctx, w, event)
}

// unblock forgets a key's window and level, and takes it off the list.
func (p *partition) unblock(ctx context.Context, w *keyed) error {
	now := p.config.Now().UnixMilli()
	w.state = window.State{}
	if err := p.correct(ctx, w); err != nil {
		return err
	}
	if w.verdict == nil || !w.verdict.live(now) {
		return nil
	}
	v := *w.verdict
	v.Ended, v.Lifted, v.Generation, v.Offset = now, true, w.generation, w.offset
	w.verdict = &v
	p.logged.verdict(p.logger, blocklist.EventLifted, w, &v)
	if !v.Listed {
		return nil
	}
	return p.publish(ctx, w, blocklist.EventLifted)
}

// publish sends what a window says to the list, and what happened to the events unless event is empty. The checkpoint
// waits until both are acknowledged.
func (p *partition) publish(ctx context.Context, w *keyed, event string) error {
	w.verdict.sent = true
	return p.publishEntry(ctx, entryOf(w.rule, w.key(), w.verdict), event)
}

// entryOf is a verdict as the list has it.
func entryOf(rule *counted, key string, v *Verdict) *blocklist.Entry {
	e := &blocklist.Entry{
		ID: v.id(rule.name, key), Rule: rule.name, Key: key, From: v.From, Until: v.Until, Decided: v.Decided,
		Ended: v.Ended, Limit: v.Limit, Count: v.Count, Level: v.Level, Source: blocklist.Verdict, By: "weir",
		Generation: v.Generation, Offset: v.Offset,
	}
	if rule.rule != nil {
		e.Fields, e.Mode = rule.rule.Key.Fields(key), blocklist.Mode(rule.rule.Mode)
	}
	return e
}

func (p *partition) publishEntry(ctx context.Context, e *blocklist.Entry, event string) error {
	value, err := e.Append(nil)
	if err != nil { // a key or a time that the list cannot have
		p.faults.Note("verdict", fmt.Errorf("the block of %q by %s cannot be published: %w", e.Key, e.Rule, err))
		p.metrics.unpublished.Inc()
		return nil
	}
	messages := int32(1)
	if event != "" {
		messages = 2
	}
	paper := p.sent.add(messages)
	message := kafka.Message{Key: blocklist.RecordKey(e.Rule, e.Key), Value: value, Done: func(offset int64, err error) {
		p.acknowledged(paper, err)
		if err == nil {
			p.list.tell(offset)
		}
	}}
	if err := p.config.Blocklist.Send(ctx, message); err != nil {
		return fmt.Errorf("the blocklist: %w: %w", errSend, err)
	}
	if event == "" {
		return nil
	}
	return p.sendEvent(ctx, e, event, paper)
}

func (p *partition) sendEvent(ctx context.Context, e *blocklist.Entry, event string, paper *receipt) error {
	line, err := blocklist.AppendEvent(nil, event, p.config.Now().UnixMilli(), e)
	if err != nil {
		p.acknowledged(paper, err)
		return nil
	}
	message := kafka.Message{Partition: hit.Partition(e.Rule, []byte(e.Key), p.config.EventsPartitions), Key: blocklist.RecordKey(e.Rule, e.Key), Value: line,
		Done: func(_ int64, err error) { p.acknowledged(paper, err) }}
	if err := p.config.Events.Send(ctx, message); err != nil {
		return fmt.Errorf("the events: %w: %w", errSend, err)
	}
	return nil
}

// acknowledged is called by producers. What Kafka refuses for good nobody can mend; all else stays unacknowledged, and
// the checkpoint before it.
func (p *partition) acknowledged(paper *receipt, err error) {
	if err != nil && !errors.Is(err, kafka.ErrPermanent) {
		return
	}
	if err != nil {
		p.faults.Note("publish", err)
		p.metrics.unpublished.Inc()
	}
	paper.left.Add(-1)
}
