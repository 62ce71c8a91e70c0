package publishing

import (
	"context"
	"fmt"
	"time"

	"weir/internal/store"
	"weir/pkg/aggregator/windows"
)

const overKept = time.Hour // how long an entry that is over stays on the list, for slow readers

// An ending is an entry of a rule that is gone, or one that has long been over: when Kafka has what was sent of it, the
// store ends the one and the index forgets the other.
type ending struct {
	name  []byte
	at    int64
	clean bool // it has long been over
}

// Ends are the endings that Kafka has to have first.
type ends []ending

// cleanUp sends a record without a value for an entry that has long been over, so that the topic forgets it.
func (e *ends) cleanUp(ctx context.Context, post *post, name []byte, v *windows.Verdict, now int64) error {
	if v != nil && (now-v.Over() < overKept.Milliseconds() || v.ComesBack(now)) {
		return nil
	}
	*e = append(*e, ending{name: name, at: now, clean: true})
	return post.sendRecord(ctx, name, nil, post.receipt(1))
}

// write ends in the store what Kafka has as ended, and has the index forget what the list has forgotten. It finds
// each window again: since the page, and since a try that failed, it may have been written, forgotten and read again.
func (e *ends) write(ctx context.Context, find *finder) error {
	found := make([]*windows.Window, len(*e))
	for i, end := range *e {
		found[i] = find.window(string(end.name)) // also when its rule is back
	}

	if err := find.set.Load(ctx); err != nil {
		return err
	}
	if err := e.writeGone(ctx, find, found); err != nil {
		return err
	}

	for i, w := range found {
		if w != nil {
			(*e)[i].end(find.set, w)
		}
	}

	*e = nil
	find.set.Settle()
	return nil
}

// writeGone ends those that are in the store alone: their rule is gone.
func (e *ends) writeGone(ctx context.Context, find *finder, found []*windows.Window) error {
	var gone []ending
	var names [][]byte
	for i, end := range *e {
		if found[i] == nil {
			gone, names = append(gone, end), append(names, end.name)
		}
	}

	records, err := find.records(ctx, names)
	if err != nil {
		return err
	}

	var changes []store.Change
	for i, record := range records {
		changes = gone[i].appendChange(changes, record)
	}

	if len(changes) == 0 {
		return nil
	}
	if err := find.own.Write(ctx, changes); err != nil {
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

// end does the same to a window that is in memory.
func (e *ending) end(set *windows.Set, w *windows.Window) {
	if !e.clean {
		set.Change(w)
		w.Verdict = w.Verdict.EndedAt(e.at)
		return
	}
	if w.Verdict == nil || !w.Verdict.Live(e.at) {
		set.Change(w)
		w.Index = windows.IndexDeleted
	}
}
