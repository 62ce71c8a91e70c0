package aggregator

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"weir/internal/kafka"
	"weir/pkg/aggregator/windows"
	"weir/pkg/blocklist"
	"weir/pkg/hit"
	"weir/pkg/window"
)

// errSend says that a producer took nothing: the context is done, or it is closed.
var errSend = errors.New("not sent")

// A receipt is of what was sent: left counts the messages that are not acknowledged.
type receipt struct{ left atomic.Int32 }

// follow does what follows from a hit that began, extended or moved a block.
func (p *partition) follow(ctx context.Context, w *windows.Window, o window.Outcome, source string) error {
	if o.Event == window.Extended {
		return p.decide(ctx, w, o, source)
	}
	for _, other := range w.State.Others() {
		if err := p.noteOther(ctx, w, other); err != nil {
			return err
		}
	}

	if o.Event == window.Broke || w.Verdict == nil {
		return p.decide(ctx, w, o, source)
	}
	p.move(w, o)
	return nil
}

// noteOther says of a block that is not its key's last, and so not on the list, that it was begun or moved.
func (p *partition) noteOther(ctx context.Context, w *windows.Window, o window.Outcome) error {
	now := p.config.Now().UnixMilli()
	v := &windows.Verdict{Decided: now}
	takeOver(v, w, o)
	if !v.Live(now) {
		return nil
	}
	event := blocklist.EventBlocked
	if o.Event == window.Moved {
		event = blocklist.EventCorrected
	}
	p.logged.verdict(p.logger, p.config.Now(), event, w, v)
	return p.sendEvent(ctx, entryOf(w.Rule, w.Key(), v), event, p.sent.add(1))
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
func (p *partition) move(w *windows.Window, o window.Outcome) {
	v := *w.Verdict
	takeOver(&v, w, o)
	v.Sent = false
	w.Verdict = &v
	if v.Listed || v.Live(p.config.Now().UnixMilli()) {
		p.toCorrect(w, &v)
	}
}

// toCorrect has the entry of a window's verdict published with the next checkpoint.
func (p *partition) toCorrect(w *windows.Window, v *windows.Verdict) {
	if p.corrections == nil {
		p.corrections = map[string]bool{}
	}
	p.corrections[w.Name] = p.corrections[w.Name] || !v.Listed
	v.Listed, w.Index = true, windows.IndexSet
}

// replace has the verdict of a block that is over take the place of an entry that lasts: a late hit has shown that the
// entry's block was a shorter one. The entry's id stays.
func (p *partition) replace(w *windows.Window, listed *windows.Verdict, now int64) {
	if listed == nil || !listed.Listed {
		return
	}
	if _, again := p.replay.touched[w.Name]; !again && !listed.Live(now) {
		return
	}
	w.Verdict.Listed = true
	w.Verdict.First, w.Verdict.FirstLevel = listed.AtFirst()
	p.toCorrect(w, w.Verdict)
}

// decide notes a broken limit and publishes it, unless the block is over already.
func (p *partition) decide(ctx context.Context, w *windows.Window, o window.Outcome, source string) error {
	if err := p.correct(ctx, w); err != nil {
		return err
	}
	now := p.config.Now().UnixMilli()
	event := blocklist.EventBlocked
	v := &windows.Verdict{From: o.From, Until: o.Until, Decided: now}
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
	if !v.Live(now) {
		p.metrics.over.Inc()
		p.logged.over(source)
		p.replace(w, listed, now)
		return nil
	}

	p.logged.live(source)
	v.Listed, w.Index = true, windows.IndexSet
	p.metrics.blocks(w.Rule, v.Limit).Inc()
	p.metrics.delay(w.Rule).Observe(float64(max(0, now-v.From)) / 1000)
	p.logged.verdict(p.logger, p.config.Now(), event, w, v)
	return p.publish(ctx, w, event)
}

// unblock forgets a key's window and level, and takes it off the list.
func (p *partition) unblock(ctx context.Context, w *windows.Window) error {
	now := p.config.Now().UnixMilli()
	w.State = window.State{}
	if err := p.correct(ctx, w); err != nil {
		return err
	}
	if w.Verdict == nil || !w.Verdict.Live(now) {
		return nil
	}

	v := *w.Verdict
	v.Ended, v.Lifted, v.Generation, v.Offset = now, true, w.Generation, w.Offset
	w.Verdict = &v
	p.logged.verdict(p.logger, p.config.Now(), blocklist.EventLifted, w, &v)
	if !v.Listed {
		return nil
	}

	return p.publish(ctx, w, blocklist.EventLifted)
}

// publish sends what a window says to the list, and what happened to the events unless event is empty. The checkpoint
// waits until both are acknowledged.
func (p *partition) publish(ctx context.Context, w *windows.Window, event string) error {
	w.Verdict.Sent = true
	return p.publishEntry(ctx, entryOf(w.Rule, w.Key(), w.Verdict), event)
}

// entryOf is a verdict as the list has it.
func entryOf(rule *windows.Rule, key string, v *windows.Verdict) *blocklist.Entry {
	e := &blocklist.Entry{
		ID: v.ID(rule.Name, key), Rule: rule.Name, Key: key, From: v.From, Until: v.Until, Decided: v.Decided,
		Ended: v.Ended, Limit: v.Limit, Count: v.Count, Level: v.Level, Source: blocklist.Verdict, By: "weir",
		Generation: v.Generation, Offset: v.Offset,
	}
	if rule.Spec != nil {
		e.Fields, e.Mode = rule.Spec.Key.Fields(key), blocklist.Mode(rule.Spec.Mode)
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

// acknowledged is called by producers. Trying again does not help where Kafka refuses a message permanently; all others
// stay unacknowledged, and the checkpoint stays before them.
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

// A receipts keeps, in their order, what was sent and is not acknowledged.
type receipts struct {
	queue []*receipt
	gone  uint64 // acknowledged, and before all others
	taken uint64 // sent
}

// done is how many of the first are acknowledged.
func (r *receipts) done() uint64 {
	n := 0
	for n < len(r.queue) && r.queue[n].left.Load() == 0 {
		r.queue[n] = nil
		n++
	}
	r.queue = r.queue[n:]
	r.gone += uint64(n)
	return r.gone
}

func (r *receipts) add(messages int32) *receipt {
	one := &receipt{}
	one.left.Store(messages)
	r.queue = append(r.queue, one)
	r.taken++
	return one
}
