package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/weir/internal/output"
	"weir/cmd/weir/internal/output/terminal"
	"weir/cmd/weir/internal/shown"
	"weir/pkg/blocklist"
)

const (
	watchRows  = 1000 // changes in the view, the newest ones
	watchDraw  = 250 * time.Millisecond
	noteShown  = 30 * time.Second
	watchTitle = "AT\tCHANGE\tKEY\tRULE\tUNTIL\tWHY"
)

// watchOrders are the orders of the view; the numbers are the columns of watchTitle.
var watchOrders = []terminal.Order{{Name: "time", Column: -1}, {Name: "key", Column: 2}, {Name: "rule", Column: 3}, {Name: "change", Column: 1}}

// A watchView keeps the newest changes.
type watchView struct {
	rows    []terminal.Row // the oldest first
	changes int            // all that were seen
	feed    *watchFeed

	mu    sync.Mutex
	note  string // the last message of the feed
	noted time.Time
}

// view shows the changes in place until the user leaves.
func (w *watchCommand) view(c *cobra.Command, feed *watchFeed) error {
	v := &watchView{feed: feed}
	feed.stderr = v
	if err := feed.begin(c.Context()); err != nil {
		return err
	}

	ctx, fail := context.WithCancelCause(c.Context())
	defer fail(nil)
	err := browse(ctx, c, watchOrders, &aggregatorFlags{enforcer: w.enforcer}, func(ctx context.Context, tables chan<- terminal.Table) {
		changes := make(chan []watchChange)
		var feeding sync.WaitGroup
		defer feeding.Wait()
		feeding.Go(func() {
			if err := feed.run(ctx, changes); err != nil {
				fail(err)
			}
		})
		v.run(ctx, changes, tables)
		for range changes { // closed when the feed has ended
		}
	})
	if cause := context.Cause(ctx); err == nil && cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// run sends a table after changes, at most one in watchDraw.
func (v *watchView) run(ctx context.Context, changes <-chan []watchChange, tables chan<- terminal.Table) {
	ticker := time.NewTicker(watchDraw)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case some, ok := <-changes:
			if !ok {
				return
			}
			v.add(time.Now(), some)
		case now := <-ticker.C:
			select {
			case tables <- v.table(now):
			case <-ctx.Done():
				return
			}
		}
	}
}

// Write takes a message of the feed.
func (v *watchView) Write(message []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.note = output.Printable(strings.TrimRight(strings.TrimPrefix(string(message), "weir: "), ":\n"))
	v.noted = time.Now()
	return len(message), nil
}

func (v *watchView) add(now time.Time, changes []watchChange) {
	times := shown.LocalTimes(now)
	for i := range changes {
		c := &changes[i]
		if c.known {
			continue
		}
		v.changes++
		until := "-"
		if c.what != blocklist.EventLifted && c.Until != blocklist.Never {
			until = times.At(c.Until)
		}
		of := ruleKey{c.Rule, c.Key}
		if c.Source == blocklist.Manual && c.Order != blocklist.OrderPardon {
			of = ruleKey{"", c.Target()}
		}
		v.rows = append(v.rows, terminal.Row{
			ID: fmt.Sprint(v.changes), Color: c.color(), Value: of,
			Cells: []string{clock(now), c.word(), cutCell(c.Target()), c.RuleName(), until, c.WhyIn(times)},
		})
	}
	v.rows = slices.Delete(v.rows, 0, max(0, len(v.rows)-watchRows))
}

func (v *watchView) table(now time.Time) terminal.Table {
	table := terminal.Table{Title: strings.Split(watchTitle, "\t"), Rows: slices.Clone(v.rows)}
	slices.Reverse(table.Rows)
	table.Head = []string{fmt.Sprintf("weir watch  %s  %s since the start", now.Format("15:04:05 MST"), output.Counted(v.changes, "change"))}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.feed.away.Load() || now.Sub(v.noted) < noteShown {
		table.Note = v.note
	}
	return table
}
