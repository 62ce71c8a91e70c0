package publishing

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"weir/internal/store"
	"weir/internal/telemetry"
	"weir/internal/topic"
	"weir/pkg/aggregator/windows"
	"weir/pkg/blocklist"
)

const (
	walkPairs  = 200
	walkEvery  = 50 * time.Millisecond // between pages: 4,000 entries a second and partition at most
	pruneEvery = 6 * time.Hour         // where nothing has to be published again
	mixed      = 0                     // modes of a note: live entries may have been published in several
)

// A walk goes through a partition's live entries. It publishes them again when the list is another, and when a rule has
// gone or has another mode; and it cleans the list and the index of those that have long been over. It takes a page, waits
// until Kafka has what that led to, and takes the next.
type walk struct {
	find   *finder
	post   *post
	late   *late
	modes  func() uint64
	logger *slog.Logger
	faults *telemetry.Faults

	steps
}

// Steps are how far a walk has come.
type steps struct {
	note, stored note // as it is, and as the store has it
	took         takeover
	going        *note
	publishes    bool
	skips        bool // what the present owner has published: all of it stands behind note.since
	cursor       store.Cursor
	last         bool // there are no more pages
	ends         ends
	acknowledged uint64 // how much must be, of what was sent, before the next page
	written      uint64 // how much must be, of what had changed, before the first: the index knows nothing of it else
	next         time.Time
}

// A takeover is how the list stood before the present owner of a partition published anything. The owner's first walk
// begins there, and so need not publish again what the owner has published since.
type takeover struct {
	list  string
	modes uint64
	since int64
}

// restore starts from the note that the store has.
func (w *walk) restore(value, topicNote []byte) (err error) {
	w.note, err = readNote(value)
	w.note.topic = topic.Identity(windows.ReadTopicNote(topicNote, w.note.list))
	if w.note.since != unknown {
		w.stored = w.note
	}
	return err
}

// takeOver notes how the list stands. Where its end is not known, nothing is noted, and the first walk publishes all.
func (w *walk) takeOver(ctx context.Context) {
	w.took = takeover{}
	if end, err := w.post.list.config.Topic.End(ctx); err == nil {
		w.took = takeover{w.post.list.ID().String(), w.modes(), end}
	}
}

// mix notes in the store that entries may have other modes than those of the last walk, before any does. Otherwise an
// owner that ends before its own walk does leaves entries that no later walk publishes in the modes of before.
func (w *walk) mix(ctx context.Context) error {
	if w.note.since == unknown || w.note.modes == mixed || w.note.modes == w.modes() {
		return nil
	}
	w.note.modes = mixed
	return w.writeNote(ctx)
}

// complete reports whether all live entries are published on the present list.
func (w *walk) complete() bool { return w.note.complete(w.post.list.ID().String()) }

// turn begins a walk when one is due, and goes on with it.
func (w *walk) turn(ctx context.Context) error {
	if err := w.mix(ctx); err != nil {
		return err
	}
	now := w.post.list.config.Now()
	if now.Before(w.next) || w.post.acknowledged() < w.acknowledged || w.find.set.Written() < w.written {
		return nil
	}

	w.next = now.Add(walkEvery)
	if w.going == nil {
		w.begin(ctx, now)
		return nil
	}
	if err := w.ends.write(ctx, w.find); err != nil {
		return err
	}
	if w.going.modes != w.modes() || w.going.list != w.post.list.ID().String() {
		w.going = nil // begun for what is not so any more
		return nil
	}
	if w.last {
		w.note, w.going = *w.going, nil
		return w.writeNote(ctx)
	}

	return w.page(ctx, now.UnixMilli())
}

func (w *walk) begin(ctx context.Context, now time.Time) {
	modes, identity, list := w.modes(), w.post.list.InTopic(), w.post.list.ID().String()
	age := now.Sub(time.UnixMilli(w.note.walked))
	missed := w.late.missed.Load()
	publishes := !w.note.complete(list) || w.note.modes != modes || missed
	// A clock that was ahead and went back must not put the next walk off until it is there again.
	if !publishes && age >= 0 && age < pruneEvery {
		return
	}

	since, err := w.post.list.config.Topic.End(ctx)
	if err != nil {
		w.faults.Note("list", err)
		return
	}

	took := w.took
	w.took = takeover{}
	w.skips = took == takeover{list, modes, took.since} && !missed
	switch {
	case !publishes:
		since = w.note.since
	case w.skips:
		since = took.since
	}

	if publishes {
		w.late.missed.Store(false)
	}
	w.going = &note{list: list, topic: identity, since: since, modes: modes, walked: now.UnixMilli()}
	w.publishes, w.cursor, w.last, w.written = publishes, "", false, w.find.set.Tail()
}

// page publishes the next entries.
func (w *walk) page(ctx context.Context, now int64) error {
	defer func() { w.acknowledged = w.post.sent }() // also of what a page has sent that is walked again
	page, err := w.find.own.Scan(ctx, store.Index, w.cursor, walkPairs)
	if err != nil {
		return fmt.Errorf("walking through the list: %w", err)
	}

	found := make([]*windows.Window, len(page.Pairs))
	for i, pair := range page.Pairs {
		found[i] = w.find.window(string(pair.Key))
	}

	if err := w.find.set.Load(ctx); err != nil {
		return err
	}
	for i, pair := range page.Pairs {
		over := w.over
		if ruleName, _, _ := strings.Cut(string(pair.Key), "/"); w.find.rule(ruleName) == nil {
			over = w.endGone
		}
		if err := over(ctx, pair.Key, found[i], now); err != nil {
			return err
		}
	}

	w.find.set.Settle()
	w.cursor, w.last = page.Next, page.Next == ""
	return nil
}

// over publishes an entry, or cleans up after one that is over.
func (w *walk) over(ctx context.Context, name []byte, one *windows.Window, now int64) error {
	if v := one.Verdict; v != nil && v.ComesBack(now) {
		return w.revive(ctx, one)
	}
	if one.Verdict == nil || !one.Verdict.Live(now) && !hides(one.Verdict, now) {
		return w.ends.cleanUp(ctx, w.post, name, one.Verdict, now)
	}
	if !w.publishes || w.skips && one.Verdict.Sent {
		return nil
	}
	return w.post.publish(ctx, published(one, ""))
}

// hides reports whether the verdict was ended a short while ago and would last: records of before must not come to stand
// in front of its end.
func hides(v *windows.Verdict, now int64) bool {
	return v.Ended != 0 && v.Listed && v.Until > now && now-v.Ended < overKept.Milliseconds()
}

// revive has a block last again whose rule is back.
func (w *walk) revive(ctx context.Context, one *windows.Window) error {
	w.find.set.Change(one)
	v := *one.Verdict
	v.Ended = 0
	one.Verdict = &v
	w.post.list.log.verdict(w.logger, w.post.list.config.Now(), blocklist.EventBlocked, one, &v)
	return w.post.publish(ctx, published(one, blocklist.EventBlocked))
}

// endGone publishes that the entry of a rule that is gone has ended.
func (w *walk) endGone(ctx context.Context, name []byte, one *windows.Window, now int64) error {
	v, err := w.find.lastVerdict(ctx, name, one)
	if err != nil {
		return err
	}
	if v == nil || !v.Live(now) {
		return w.ends.cleanUp(ctx, w.post, name, v, now)
	}

	w.ends = append(w.ends, ending{name: name, at: now})
	ended := *v
	ended.Ended = now
	ruleName, key, _ := strings.Cut(string(name), "/")
	rule := &windows.Rule{Name: ruleName} // all that is known of it
	w.post.list.log.verdict(w.logger, w.post.list.config.Now(), blocklist.EventEnded, &windows.Window{Name: string(name), Rule: rule}, &ended)
	return w.post.publish(ctx, Publication{entry: entryOf(rule, key, &ended), event: blocklist.EventEnded})
}

// notes are what the store has to learn of the walk.
func (w *walk) notes() []store.Change {
	if w.note == w.stored {
		return nil
	}
	return w.note.changes()
}

func (w *walk) writeNote(ctx context.Context) error {
	if err := w.find.own.Write(ctx, w.note.changes()); err != nil {
		return fmt.Errorf("writing the note of the list: %w", err)
	}
	w.stored = w.note
	return nil
}
