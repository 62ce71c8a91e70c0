package publishing

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"weir/internal/telemetry"
	"weir/internal/topic"
	"weir/pkg/aggregator/windows"
	"weir/pkg/blocklist"
	"weir/pkg/hit"
)

// ErrSend says that a producer took nothing: the context is done, or it is closed.
var ErrSend = errors.New("not sent")

// A Publication is an entry for the list, an event, or both.
type Publication struct {
	entry    *blocklist.Entry
	event    string // empty for none
	unlisted bool   // the list does not get it
}

// published is what a window's verdict says, for the list, with an event unless that is empty.
func published(w *windows.Window, event string) Publication {
	w.Verdict.Sent = true
	return Publication{entry: entryIn(w, w.Verdict), event: event}
}

// entryIn is a verdict of a window as the list has it.
func entryIn(w *windows.Window, v *windows.Verdict) *blocklist.Entry {
	e := entryOf(w.Rule, w.Key(), v)
	e.Why = membersOf(w, v)
	return e
}

// entryOf is a verdict as the list has it, but for the members of a group.
func entryOf(rule *windows.Rule, key string, v *windows.Verdict) *blocklist.Entry {
	e := &blocklist.Entry{
		ID: v.ID(rule.Name, key), Rule: rule.Name, Key: key, From: v.From, Until: v.Until, Decided: v.Decided,
		Ended: v.Ended, Limit: v.Limit, Count: v.Count, Level: v.Level, Source: blocklist.Verdict, By: "weir",
		Generation: v.Generation, Offset: v.Offset,
	}
	if rule.Spec != nil {
		e.Fields, e.Mode = rule.Spec.Key.Fields(key), blocklist.Mode(rule.Spec.Mode)
	}
	if v.HeldBack(rule) {
		e.Mode, e.Guarded, e.ByShare = blocklist.Shadow, true, v.Guarded == windows.MostShare
	}
	return e
}

// A post sends what a partition publishes, and keeps, in their order, the receipts of what is not acknowledged.
type post struct {
	list   *List
	faults *telemetry.Faults
	queue  []*receipt
	gone   uint64 // acknowledged, and before all others
	sent   uint64
	owed   uint64 // how much must be acknowledged before windows are written
}

// A receipt is of what was sent: left counts the messages that are not acknowledged.
type receipt struct{ left atomic.Int32 }

func (p *post) receipt(messages int32) *receipt {
	one := &receipt{}
	one.left.Store(messages)
	p.queue = append(p.queue, one)
	p.sent++
	return one
}

// acknowledged is how many of the first are acknowledged.
func (p *post) acknowledged() uint64 {
	n := 0
	for n < len(p.queue) && p.queue[n].left.Load() == 0 {
		p.queue[n] = nil
		n++
	}
	p.queue = p.queue[n:]
	p.gone += uint64(n)
	return p.gone
}

// forget forgets what was sent.
func (p *post) forget() { p.queue, p.gone, p.sent, p.owed = nil, 0, 0, 0 }

// publish sends an entry to the list, and what happened to the events.
func (p *post) publish(ctx context.Context, one Publication) error {
	if one.unlisted {
		return p.sendEvent(ctx, one, p.receipt(1))
	}
	value, err := one.entry.Append(nil)
	if err != nil { // a key or a time that the list cannot have
		p.faults.Note("verdict", fmt.Errorf("the block of %q by %s cannot be published: %w", one.entry.Key, one.entry.Rule, err))
		p.list.config.Unpublished()
		return nil
	}

	messages := int32(1)
	if one.event != "" {
		messages = 2
	}

	of := p.receipt(messages)
	if err := p.sendRecord(ctx, blocklist.RecordKey(one.entry.Rule, one.entry.Key), value, of); err != nil || one.event == "" {
		return err
	}
	return p.sendEvent(ctx, one, of)
}

// sendRecord sends a record to the list; one without a value has a compacted topic forget its key.
func (p *post) sendRecord(ctx context.Context, key, value []byte, of *receipt) error {
	sent := p.list.place()
	message := topic.Message{Key: key, Value: value, Done: func(offset int64, err error) {
		p.done(of, err)
		if err == nil {
			p.list.arrived(offset, sent)
		}
	}}
	if err := p.list.config.Blocklist.Send(ctx, message); err != nil {
		return fmt.Errorf("the blocklist: %w: %w", ErrSend, err)
	}
	return nil
}

func (p *post) sendEvent(ctx context.Context, one Publication, of *receipt) error {
	config, e := &p.list.config, one.entry
	line, err := blocklist.AppendEvent(nil, one.event, config.Now().UnixMilli(), e)
	if err != nil {
		p.done(of, err)
		return nil
	}
	message := topic.Message{Partition: hit.Partition(e.Rule, []byte(e.Key), config.EventsPartitions), Key: blocklist.RecordKey(e.Rule, e.Key), Value: line,
		Done: func(_ int64, err error) { p.done(of, err) }}
	if err := config.Events.Send(ctx, message); err != nil {
		return fmt.Errorf("the events: %w: %w", ErrSend, err)
	}
	return nil
}

// done is called by producers. Trying again does not help where Kafka refuses a message permanently; all others stay
// unacknowledged, and the checkpoint stays before them.
func (p *post) done(of *receipt, err error) {
	if err != nil && !errors.Is(err, topic.ErrPermanent) {
		return
	}
	if err != nil {
		p.faults.Note("publish", err)
		p.list.config.Unpublished()
	}
	of.left.Add(-1)
}
