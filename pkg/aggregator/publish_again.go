package aggregator

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"weir/internal/kafka"
	"weir/internal/store"
	"weir/internal/varint"
	"weir/pkg/aggregator/windows"
	"weir/pkg/blocklist"
)

const (
	walkPairs  = 200
	walkEvery  = 50 * time.Millisecond // between pages: 4,000 entries a second and partition at most
	pruneEvery = 6 * time.Hour         // where nothing has to be published again
	overKept   = time.Hour             // how long an entry that is over stays on the list, for slow readers
)

const noteVersion = 1

var listKey = []byte("list")

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
	skips        bool // what the present owner has published: all of it stands behind note.since
	cursor       store.Cursor
	last         bool // there are no more pages
	ends         []ending
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

// noteTakeover notes how the list stands. Where its end is not known, nothing is noted, and the first walk publishes all.
func (p *partition) noteTakeover(ctx context.Context) {
	p.took = takeover{}
	if end, err := p.listEnd(ctx); err == nil {
		p.took = takeover{p.list.current().String(), p.rules.ruling.modes, end}
	}
}

const (
	lookBackMost     = 10_000 // records; of a longer list all is published again
	lookBackExtra    = 1000   // what had been seen by the last checkpoint may not have been healed by then
	lookBackPatience = 5 * time.Second
)

// lookBack reads the records that came between the last owner's checkpoint and the takeover. The list was not watched for
// this partition meanwhile, and an owner that was stopped may have sent its last records then.
func (p *partition) lookBack(ctx context.Context) {
	p.lates = nil
	stored, _ := p.saver.Stored()
	from, end := max(0, stored.Listed-lookBackExtra), p.took.since
	if p.took.list == "" || end-from > lookBackMost {
		p.missed.Store(true)
		return
	}

	ctx, cancel := context.WithTimeout(ctx, lookBackPatience)
	defer cancel()
	last := map[string]superseded{}
	err := p.listed(ctx, from, end, func(r *kafka.Record) {
		record, err := blocklist.DecodeRecord(r.Key, r.Value)
		if number, ok := partitionOf(r.Key, p.config.Partitions); err == nil && ok && number == p.number {
			name := string(r.Key)
			last[name] = superseded{name, record.Entry}
		}
	})
	if err != nil {
		p.missed.Store(true)
	}

	p.lates = slices.Collect(maps.Values(last))
}

// read reads the note.
func (w *walk) read(value []byte) error {
	w.note.since = unknown
	if value == nil {
		return nil
	}
	if windows.LaterVersion(value, noteVersion) {
		return fmt.Errorf("the note of the list: %w: version %d", windows.ErrNewer, value[0])
	}

	c := varint.Reader{Left: value}
	if version := c.Take(1); len(version) == 0 || version[0] != noteVersion {
		c.Fail()
	}

	note := listNote{since: c.Number() - 1}
	note.modes, note.walked, note.list = c.Unsigned(), c.Number(), string(c.Left)
	if !c.Failed { // a damaged one is as good as none
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
	if p.storeRests() || p.windows.Waiting() > 0 || now.Before(w.next) || p.sent.done() < w.acknowledged || p.windows.Written() < w.written {
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
	// A clock that was ahead and went back must not put the next walk off until it is there again.
	due := func(period time.Duration) bool { return age >= period || age < 0 }
	publishes := !w.whole(list) || w.note.modes != modes || half > 0 && due(half) || p.missed.Load()
	if !publishes && !due(pruneEvery) {
		return
	}

	since, err := p.listEnd(ctx)
	if err != nil {
		p.faults.Note("list", err)
		return
	}

	took := p.took
	p.took = takeover{}
	w.skips = took == takeover{list, modes, took.since} && !p.missed.Load()
	switch {
	case !publishes:
		since = w.note.since
	case w.skips:
		since = took.since
	}

	if publishes {
		p.missed.Store(false)
	}
	w.going = &listNote{list: list, since: since, modes: modes, walked: now.UnixMilli()}
	w.publishes, w.cursor, w.last, w.written = publishes, "", false, p.windows.Tail()
}

// walkPage publishes the next entries.
func (p *partition) walkPage(ctx context.Context, now int64) error {
	w := &p.walk
	defer func() { w.acknowledged = p.sent.taken }() // also of what a page has sent that is walked again
	page, err := p.own.Scan(ctx, store.Index, w.cursor, walkPairs)
	if err != nil {
		return fmt.Errorf("walking through the list: %w", err)
	}

	found := make([]*windows.Window, len(page.Pairs))
	for i, pair := range page.Pairs {
		found[i] = p.window(string(pair.Key))
	}

	if err := p.windows.Load(ctx); err != nil {
		return err
	}
	for i, pair := range page.Pairs {
		walkOver := p.walkOver
		if ruleName, _, _ := strings.Cut(string(pair.Key), "/"); p.rules.named(ruleName) == nil {
			walkOver = p.endGone
		}
		if err := walkOver(ctx, pair.Key, found[i], now); err != nil {
			return err
		}
	}

	p.windows.Settle()
	w.cursor, w.last = page.Next, page.Next == ""
	return nil
}

// walkOver publishes an entry, or cleans up after one that is over.
func (p *partition) walkOver(ctx context.Context, name []byte, one *windows.Window, now int64) error {
	if v := one.Verdict; v != nil && v.ComesBack(now) {
		return p.revive(ctx, one)
	}
	if one.Verdict == nil || !one.Verdict.Live(now) && !hides(one.Verdict, now) {
		return p.cleanUp(ctx, name, one.Verdict, now)
	}
	if !p.walk.publishes || p.walk.skips && one.Verdict.Sent {
		return nil
	}
	return p.publish(ctx, one, "")
}

// hides says whether the verdict was ended a short while ago and would last: records of before must not come to stand
// in front of its end.
func hides(v *windows.Verdict, now int64) bool {
	return v.Ended != 0 && v.Listed && v.Until > now && now-v.Ended < overKept.Milliseconds()
}

// revive has a block last again whose rule is back.
func (p *partition) revive(ctx context.Context, w *windows.Window) error {
	p.windows.Change(w)
	v := *w.Verdict
	v.Ended = 0
	w.Verdict = &v
	p.logged.verdict(p.logger, p.config.Now(), blocklist.EventBlocked, w, &v)
	return p.publish(ctx, w, blocklist.EventBlocked)
}

// notes are what the store has to learn of the walk.
func (w *walk) notes() []store.Change {
	if w.note == w.stored {
		return nil
	}
	return []store.Change{{Space: store.Notes, Key: listKey, Value: w.note.append(nil)}}
}

func (p *partition) writeNote(ctx context.Context) error {
	if err := p.own.Write(ctx, []store.Change{{Space: store.Notes, Key: listKey, Value: p.walk.note.append(nil)}}); err != nil {
		return fmt.Errorf("writing the note of the list: %w", err)
	}
	p.walk.stored = p.walk.note
	return nil
}
