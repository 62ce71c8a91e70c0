package aggregator

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"weir/internal/kafka"
	"weir/internal/store"
	"weir/pkg/blocklist"
)

const (
	walkPairs  = 200
	walkEvery  = 50 * time.Millisecond // between pages: 4,000 entries a second and partition at most
	pruneEvery = 6 * time.Hour         // where nothing has to be published again
	overKept   = time.Hour             // for how long an entry that is over stays on the list for who reads slowly
)

const noteVersion = 1

// A listNote is what is kept of a partition's last walk, in the space Notes under "list". Its bytes:
//
//	version  1 byte   1
//	since    u        plus one; 0 for none
//	modes    u        a hash of the rules' names and modes
//	walked   u        when the walk began, Unix ms
//	list     the rest
type listNote struct {
	list   string // the list's id
	since  int64  // every live entry was published at this offset of the blocklist or later
	modes  uint64
	walked int64
}

func (n listNote) append(b []byte) []byte {
	b = append(b, noteVersion)
	b = binary.AppendUvarint(b, uint64(n.since+1))
	b = binary.AppendUvarint(b, n.modes)
	b = binary.AppendUvarint(b, uint64(n.walked))
	return append(b, n.list...)
}

// A walk goes through a partition's live entries. It publishes them again when the list is another, when a rule has
// gone or has another mode, and where the topic forgets what is old twice in the time that it keeps; and it cleans the
// list and the index of those that have long been over. It takes a page, waits until Kafka has what that led to, and
// takes the next.
type walk struct {
	note, stored listNote // as it is, and as the store has it
	going        *listNote
	publishes    bool
	cursor       store.Cursor
	last         bool // there are no more pages
	ends         []ending
	acknowledged uint64 // how much must be, of what was sent, before the next page
	written      uint64 // how much must be, of what had changed, before the first: the index knows nothing of it else
	next         time.Time
}

// An ending is an entry of a rule that is gone, or one that has long been over: when Kafka has what was sent of it, the
// store ends the one and the index forgets the other.
type ending struct {
	window *keyed // where it is in memory
	name   []byte
	record Record // else
	at     int64
	clean  bool // it has long been over
}

// read reads the note.
func (w *walk) read(value []byte) error {
	w.note.since = unknown
	if value == nil {
		return nil
	}
	if len(value) > 0 && value[0] > noteVersion {
		return stopped{fmt.Errorf("the note of the list: %w: version %d", ErrNewer, value[0])}
	}
	c := cursor{left: value}
	c.take(1)
	note := listNote{since: c.number() - 1}
	modes, n := binary.Uvarint(c.left)
	c.take(int64(max(n, 0)))
	note.modes, note.walked, note.list = modes, c.number(), string(c.left)
	if !c.failed { // a damaged one is as good as none
		w.note, w.stored = note, note
	}
	return nil
}

// whole says that all live entries are published on the list of that name.
func (w *walk) whole(list string) bool { return w.note.since != unknown && w.note.list == list }

// publishAgain begins a walk when one is due, and goes on with it.
func (p *partition) publishAgain(ctx context.Context, _ bool) error {
	if err := p.heal(ctx); err != nil {
		return err
	}
	now := p.config.Now()
	w := &p.walk
	if p.storeRests() || len(p.waiting) > 0 || now.Before(w.next) || p.sent.done() < w.acknowledged || p.windows.written < w.written {
		return nil
	}
	w.next = now.Add(walkEvery)
	if w.going == nil {
		p.beginWalk(ctx, now)
		return nil
	}
	if err := p.writeEnds(ctx); err != nil {
		return err
	}
	if w.going.modes != p.rules.ruling.modes || w.going.list != p.list.current().String() {
		w.going = nil // begun for what is not so any more
		return nil
	}
	if w.last {
		w.note, w.going = *w.going, nil
		return p.writeNote(ctx)
	}
	return p.walkPage(ctx, now.UnixMilli())
}

func (p *partition) beginWalk(ctx context.Context, now time.Time) {
	w := &p.walk
	modes, list := p.rules.ruling.modes, p.list.current().String()
	age := now.Sub(time.UnixMilli(w.note.walked))
	half := p.config.BlocklistRetention / 2
	publishes := !w.whole(list) || w.note.modes != modes || half > 0 && age >= half || p.missed.Load()
	if !publishes && age < pruneEvery {
		return
	}
	since, err := p.listEnd(ctx)
	if err != nil {
		p.faults.Note("list", err)
		return
	}
	if publishes {
		p.missed.Store(false)
	} else {
		since = w.note.since
	}
	w.going = &listNote{list: list, since: since, modes: modes, walked: now.UnixMilli()}
	w.publishes, w.cursor, w.last, w.written = publishes, "", false, p.windows.tail()
}

// walkPage publishes the next entries.
func (p *partition) walkPage(ctx context.Context, now int64) error {
	w := &p.walk
	defer func() { w.acknowledged = p.sent.taken }() // also of what a page has sent that is walked again
	page, err := p.own.scan(ctx, store.Index, w.cursor, walkPairs)
	if err != nil {
		return fmt.Errorf("walking through the list: %w", err)
	}
	var windows []*keyed
	for _, pair := range page.Pairs {
		one := p.window(string(pair.Key))
		ruleName, _, _ := strings.Cut(string(pair.Key), "/")
		if p.rules.named(ruleName) == nil {
			if err := p.endGone(ctx, pair.Key, one, now); err != nil {
				return err
			}
			continue
		}
		windows = append(windows, one)
	}
	if err := p.load(ctx); err != nil {
		return err
	}
	for _, one := range windows {
		if err := p.walkOver(ctx, one, now); err != nil {
			return err
		}
	}
	p.windows.settle()
	w.cursor, w.last = page.Next, page.Next == ""
	return nil
}

// walkOver publishes an entry, or cleans up after one that is over.
func (p *partition) walkOver(ctx context.Context, one *keyed, now int64) error {
	if v := one.verdict; v != nil && v.comesBack(now) {
		return p.revive(ctx, one)
	}
	if one.verdict == nil || !one.verdict.live(now) {
		return p.cleanUp(ctx, []byte(one.name), one.verdict, now)
	}
	if !p.walk.publishes {
		return nil
	}
	return p.publish(ctx, one, "")
}

// comesBack says whether the verdict was ended because its rule was gone, and would last: with the rule it comes back,
// for the window still says that the key is blocked.
func (v *Verdict) comesBack(now int64) bool { return v.Ended != 0 && !v.Lifted && v.Until > now }

// revive has a block last again whose rule is back.
func (p *partition) revive(ctx context.Context, w *keyed) error {
	p.windows.touch(w)
	v := *w.verdict
	v.Ended = 0
	w.verdict = &v
	p.logged.verdict(p.logger, blocklist.EventBlocked, w, &v)
	return p.publish(ctx, w, blocklist.EventBlocked)
}

// cleanUp sends a record without a value for an entry that has long been over, so that a compacted topic forgets it. A
// topic that forgets by age needs none.
func (p *partition) cleanUp(ctx context.Context, name []byte, v *Verdict, now int64) error {
	if v != nil && (now-v.over() < overKept.Milliseconds() || v.comesBack(now)) {
		return nil
	}
	p.walk.ends = append(p.walk.ends, ending{name: name, at: now, clean: true})
	if p.config.BlocklistRetention > 0 {
		return nil
	}
	paper := p.sent.add(1)
	message := kafka.Message{Key: name, Done: func(offset int64, err error) {
		p.acknowledged(paper, err)
		if err == nil {
			p.list.tell(offset)
		}
	}}
	if err := p.config.Blocklist.Send(ctx, message); err != nil {
		return fmt.Errorf("the blocklist: %w: %w", errSend, err)
	}
	return nil
}

// over is when the verdict is over.
func (v *Verdict) over() int64 {
	if v.Ended != 0 {
		return v.Ended
	}
	return v.Until
}

// endGone publishes that the entry of a rule that is gone has ended.
func (p *partition) endGone(ctx context.Context, name []byte, one *keyed, now int64) error {
	end := ending{window: one, name: name, at: now}
	ruleName, key, _ := strings.Cut(string(name), "/")
	var v *Verdict
	if one != nil {
		v = one.verdict
	} else {
		values, err := p.own.read(ctx, store.Windows, [][]byte{name})
		if err != nil {
			return err
		}
		if end.record, err = ReadRecord(values[0]); isNewer(err) {
			return stopped{err}
		}
		v = end.record.Verdict
	}
	if v == nil || !v.live(now) {
		return p.cleanUp(ctx, name, v, now)
	}
	p.walk.ends = append(p.walk.ends, end)
	ended := *v
	ended.Ended = now
	rule := p.rules.gone(ruleName)
	p.logged.verdict(p.logger, blocklist.EventEnded, &keyed{name: string(name), rule: rule}, &ended)
	return p.publishEntry(ctx, entryOf(rule, key, &ended), blocklist.EventEnded)
}

// writeEnds ends in the store what Kafka has as ended, and has the index forget what the list has forgotten.
func (p *partition) writeEnds(ctx context.Context) error {
	for i := range p.walk.ends {
		if end := &p.walk.ends[i]; end.window == nil {
			end.window = p.window(string(end.name)) // also when its rule is back
		}
	}
	if err := p.load(ctx); err != nil {
		return err
	}
	var changes []store.Change
	for _, end := range p.walk.ends {
		switch {
		case end.window != nil:
			p.endWindow(end.window, end)
		case end.clean:
			changes = append(changes, store.Change{Space: store.Index, Key: end.name})
		case end.record.Verdict != nil:
			end.record.Verdict = end.record.Verdict.endedAt(end.at)
			changes = append(changes, store.Change{Space: store.Windows, Key: end.name, Value: end.record.Append(nil)})
		}
	}
	if len(changes) > 0 {
		if err := p.own.write(ctx, changes); err != nil {
			return fmt.Errorf("ending entries of rules that are gone: %w", err)
		}
	}
	p.walk.ends = nil
	p.windows.settle()
	return nil
}

// endWindow does the same to a window that is in memory. One that broke its limit again meanwhile stays in the index.
func (p *partition) endWindow(w *keyed, end ending) {
	if !end.clean {
		p.windows.touch(w)
		w.verdict = w.verdict.endedAt(end.at)
		return
	}
	if w.verdict == nil || !w.verdict.live(end.at) {
		p.windows.touch(w)
		w.index = indexDeleted
	}
}

// endedAt is the verdict, ended unless it was before.
func (v *Verdict) endedAt(at int64) *Verdict {
	if v == nil || !v.live(at) {
		return v
	}
	ended := *v
	ended.Ended = at
	return &ended
}

func (p *partition) writeNote(ctx context.Context) error {
	if err := p.own.write(ctx, []store.Change{{Space: store.Notes, Key: listKey, Value: p.walk.note.append(nil)}}); err != nil {
		return fmt.Errorf("writing the note of the list: %w", err)
	}
	p.walk.stored = p.walk.note
	return nil
}
