package inspect

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/weir/internal/output"
	"weir/cmd/weir/internal/output/terminal"
	"weir/pkg/blocklist"
)

const (
	topEvery  = 2 * time.Second
	topKeys   = 200 // keys in the view, unless -n names a number
	topListed = 60  // keys that the enforcer is asked about, each by a request
)

// topOrders are the orders of the view; the numbers are the columns of topKey.cells.
var topOrders = []terminal.Order{{Name: "use", Column: -1}, {Name: "hits", Column: 2, Number: true}, {Name: "key", Column: 1}, {Name: "rule", Column: 0}}

// view shows the keys in place until the user leaves.
func (t *topCommand) view(c *cobra.Command, asked *aggregators) error {
	if !c.Flags().Changed("number") {
		t.number = topKeys
	}
	quiet := quietly(c) // a warning would be drawn over
	first, err := t.heaviest(quiet, asked, t.number)
	if len(first) == 0 && err != nil {
		return err // nothing runs, as without a view
	}

	return browse(c.Context(), c, topOrders, &t.ask, func(ctx context.Context, tables chan<- terminal.Table) {
		quiet.SetContext(ctx)
		for {
			table := t.table(quiet, asked, time.Now())
			select {
			case tables <- table:
			case <-ctx.Done():
				return
			}
			select {
			case <-time.After(topEvery):
			case <-ctx.Done():
				return
			}
		}
	})
}

// table asks for the keys.
func (t *topCommand) table(c *cobra.Command, asked *aggregators, now time.Time) terminal.Table {
	keys, err := t.heaviest(c, asked, t.number)
	err = errors.Join(err, t.askEnforcer(c, keys[:min(len(keys), topListed)]))
	table := terminal.Table{Title: topTitle(keys), Note: noteOf(err)}
	table.Head = []string{fmt.Sprintf("weir top  %s  %s", now.Format("15:04:05 MST"), countedKeys(len(keys), t.number))}
	for _, key := range keys {
		row := terminal.Row{ID: key.Rule + "\x00" + key.Key, Cells: key.cells(len(table.Title)), Weight: []float64{2: float64(key.Count), 6: 0}, Value: ruleKey{key.Rule, key.Key}}
		row.Cells[1] = cutCell(row.Cells[1])
		if key.entry != nil {
			row.Color = output.Red
			if key.entry.Mode == blocklist.Shadow {
				row.Color, row.Cells[5] = output.Yellow, "shadow"
			}
		}
		table.Rows = append(table.Rows, row)
	}
	return table
}

func countedKeys(keys, most int) string {
	switch keys {
	case 0:
		return "No key uses any of a limit now."
	case most:
		return fmt.Sprintf("the %s nearest to a limit", output.Counted(keys, "key"))
	}
	return output.Counted(keys, "key") + " with hits"
}

// longCell is the longest text of a column that is not the last one: an IPv6 prefix fits.
const longCell = 43

// cutCell shortens a printable text so that the columns after it stay on the screen.
func cutCell(text string) string {
	if runes := []rune(text); len(runes) > longCell {
		return string(runes[:longCell-1]) + "…"
	}
	return text
}

// noteOf describes an error in one line.
func noteOf(err error) string {
	if err == nil {
		return ""
	}
	return output.Printable(strings.ReplaceAll(err.Error(), "\n", "; "))
}
