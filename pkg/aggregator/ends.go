package aggregator

import (
	"context"
	"fmt"
	"strings"

	"weir/internal/kafka"
	"weir/internal/store"
	"weir/pkg/aggregator/windows"
	"weir/pkg/blocklist"
)

// An ending is an entry of a rule that is gone, or one that has long been over: when Kafka has what was sent of it, the
// store ends the one and the index forgets the other.
type ending struct {
	name  []byte
	at    int64
	clean bool // it has long been over
}

// cleanUp sends a record without a value for an entry that has long been over, so that a compacted topic forgets it. A
// topic that forgets by age needs none.
func (p *partition) cleanUp(ctx context.Context, name []byte, v *windows.Verdict, now int64) error {
	if v != nil && (now-v.Over() < overKept.Milliseconds() || v.ComesBack(now)) {
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

// endGone publishes that the entry of a rule that is gone has ended.
func (p *partition) endGone(ctx context.Context, name []byte, one *windows.Window, now int64) error {
	v, err := p.lastVerdict(ctx, name, one)
	if err != nil {
		return err
	}
	if v == nil || !v.Live(now) {
		return p.cleanUp(ctx, name, v, now)
	}

	p.walk.ends = append(p.walk.ends, ending{name: name, at: now})
	ended := *v
	ended.Ended = now
	ruleName, key, _ := strings.Cut(string(name), "/")
	rule := p.rules.gone(ruleName)
	p.logged.verdict(p.logger, p.config.Now(), blocklist.EventEnded, &windows.Window{Name: string(name), Rule: rule}, &ended)
	return p.publishEntry(ctx, entryOf(rule, key, &ended), blocklist.EventEnded)
}

// lastVerdict is that of a window, or what the store has of one that is not in memory.
func (p *partition) lastVerdict(ctx context.Context, name []byte, one *windows.Window) (*windows.Verdict, error) {
	if one != nil {
		return one.Verdict, nil
	}
	records, err := p.records(ctx, [][]byte{name})
	if err != nil {
		return nil, err
	}
	return records[0].Verdict, nil
}

// records are what the store has of windows that are not in memory, without what is damaged.
func (p *partition) records(ctx context.Context, names [][]byte) ([]windows.Record, error) {
	if len(names) == 0 {
		return nil, nil
	}
	values, err := p.own.Read(ctx, store.Windows, names)
	if err != nil {
		return nil, fmt.Errorf("reading entries of rules that are gone: %w", err)
	}

	records := make([]windows.Record, len(names))
	for i, value := range values {
		record, err := windows.ReadRecord(value)
		if windows.IsNewer(err) {
			return nil, err
		}
		if err == nil {
			records[i] = record
		}
	}

	return records, nil
}

// writeEnds ends in the store what Kafka has as ended, and has the index forget what the list has forgotten. It finds
// each window again: since the page, and since a try that failed, it may have been written, forgotten and read again.
func (p *partition) writeEnds(ctx context.Context) error {
	found := make([]*windows.Window, len(p.walk.ends))
	for i, end := range p.walk.ends {
		found[i] = p.window(string(end.name)) // also when its rule is back
	}

	if err := p.windows.Load(ctx); err != nil {
		return err
	}
	if err := p.endStored(ctx, found); err != nil {
		return err
	}

	for i, w := range found {
		if w != nil {
			p.endWindow(w, p.walk.ends[i])
		}
	}

	p.walk.ends = nil
	p.windows.Settle()
	return nil
}

// endStored ends those that are in the store alone: their rule is gone.
func (p *partition) endStored(ctx context.Context, found []*windows.Window) error {
	var ends []ending
	var names [][]byte
	for i, end := range p.walk.ends {
		if found[i] == nil {
			ends, names = append(ends, end), append(names, end.name)
		}
	}

	records, err := p.records(ctx, names)
	if err != nil {
		return err
	}

	var changes []store.Change
	for i, record := range records {
		changes = ends[i].appendChange(changes, record)
	}

	if len(changes) == 0 {
		return nil
	}
	if err := p.own.Write(ctx, changes); err != nil {
		return fmt.Errorf("ending entries of rules that are gone: %w", err)
	}

	return nil
}

// appendChange appends what ends it in the store. One that broke its limit again meanwhile stays in the index.
func (e *ending) appendChange(changes []store.Change, record windows.Record) []store.Change {
	v := record.Verdict
	switch live := v != nil && v.Live(e.at); {
	case e.clean && !live:
		return append(changes, store.Change{Space: store.Index, Key: e.name})
	case !e.clean && live:
		record.Verdict = v.EndedAt(e.at)
		return append(changes, store.Change{Space: store.Windows, Key: e.name, Value: record.Append(nil)})
	}
	return changes
}

// endWindow does the same to a window that is in memory.
func (p *partition) endWindow(w *windows.Window, end ending) {
	if !end.clean {
		p.windows.Change(w)
		w.Verdict = w.Verdict.EndedAt(end.at)
		return
	}
	if w.Verdict == nil || !w.Verdict.Live(end.at) {
		p.windows.Change(w)
		w.Index = windows.IndexDeleted
	}
}
