package publishing

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"weir/internal/store"
	"weir/pkg/aggregator/windows"
)

// A finder finds a partition's windows by their names, as the list has them.
type finder struct {
	own  *windows.Owned
	set  *windows.Set
	rule func(name string) *windows.Rule
}

// window finds a window by its name, or wants it; nil where its rule is gone.
func (f *finder) window(name string) *windows.Window {
	if w, _ := f.set.FindNamed(name); w != nil {
		return w
	}
	ruleName, _, _ := strings.Cut(name, "/")
	rule := f.rule(ruleName)
	if rule == nil {
		return nil
	}
	return f.set.Want(name, rule)
}

// windows finds windows by their names, or wants them. Those whose rule is gone are left out.
func (f *finder) windows(names iter.Seq[string]) []*windows.Window {
	var found []*windows.Window
	for name := range names {
		if w := f.window(name); w != nil {
			found = append(found, w)
		}
	}
	return found
}

// lastVerdict is that of a window, or what the store has of one that is not in memory.
func (f *finder) lastVerdict(ctx context.Context, name []byte, one *windows.Window) (*windows.Verdict, error) {
	if one != nil {
		return one.Verdict, nil
	}
	records, err := f.records(ctx, [][]byte{name})
	if err != nil {
		return nil, err
	}
	return records[0].Verdict, nil
}

// records are what the store has of windows that are not in memory, without what is damaged.
func (f *finder) records(ctx context.Context, names [][]byte) ([]windows.Record, error) {
	if len(names) == 0 {
		return nil, nil
	}
	values, err := f.own.Read(ctx, store.Windows, names)
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
