package operate

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/output"
	"weir/cmd/weir/internal/shown"
	"weir/internal/duration"
	"weir/pkg/blocklist"
)

// sorts are the orders of a list. Among equals it is rule and key.
var sorts = []string{"rule", "newest", "until", "hits", "refused"}

// A listWriter shows entries in one of three forms, sorted. It buffers at most maxSorted entries and maxShownOrders manual
// entries.
type listWriter struct {
	*listCommand
	form   string
	out    *bufio.Writer
	screen output.Screen
	times  shown.Times
	since  int64        // in Unix milliseconds; 0 is all
	ip     *shown.Match // nil is any
	held   *held        // nil is not known

	refusals map[string]shown.Refusals // by the ids of entries; empty when no requests were refused

	count  int             // of entries that were shown, or will be
	more   int             // entries beyond the limit
	rules  map[string]bool // of the entries
	lines  []listLine      // not written yet
	orders []listLine      // allows and pauses, shown to people below the list
}

// A listLine is an entry as it is written, with its place in the order.
type listLine struct {
	first     int64
	rule, key string
	row       output.Row
}

// maxSorted is how many entries are sorted together. A longer list is sorted in parts of this size.
const maxSorted = 200_000

// listRows is how many rows are aligned as one table.
const listRows = 500

// maxShownOrders is how many allows and pauses are shown to people.
const maxShownOrders = 1000

// newListWriter checks the flags that select and sort entries.
func newListWriter(l *listCommand, to io.Writer, now time.Time) (*listWriter, error) {
	w := &listWriter{listCommand: l, form: l.output.Form, out: bufio.NewWriterSize(to, 64<<10), screen: output.ScreenOf(to), times: shown.NewTimes(to, now)}
	if !slices.Contains(sorts, l.sort) {
		return nil, exit.Wrongf("--sort %s is not known; write one of %s", l.sort, strings.Join(sorts, ", "))
	}
	if l.limit < 0 || l.limit > maxSorted {
		return nil, exit.Wrongf("--limit %d is not possible; write a number of entries up to %d, or 0 for all", l.limit, maxSorted)
	}

	if l.since != "" {
		if at, err := time.Parse(time.RFC3339, l.since); err == nil {
			w.since = at.UnixMilli()
		} else if before, err := duration.Parse(l.since); err == nil && before != duration.Forever {
			w.since = now.Add(-before).UnixMilli()
		} else {
			return nil, exit.Wrongf("--since %s is not a time; write 1h for an hour before now, or %s", l.since, shown.Instant(now.Add(-time.Hour)))
		}
	}

	if l.ip != "" {
		if !shown.Prefix(l.ip).IsValid() {
			return nil, exit.Wrongf("--ip %s is no address and no prefix; write it as 203.0.113.7 or 203.0.113.0/24", l.ip)
		}
		w.ip = shown.NewMatch(l.ip)
	}
	return w, nil
}

// wanted reports whether the flags select an entry.
func (w *listWriter) wanted(e *shown.Entry) bool {
	switch {
	case w.rule != "" && e.Rule != w.rule:
		return false
	case max(e.Decided, e.From) < w.since || w.ip != nil && !w.ip.Overlaps(e):
		return false
	case w.shadow:
		return e.Mode == blocklist.Shadow
	case w.listCommand.orders:
		return e.Source == blocklist.Manual
	case w.form == "plain":
		return e.Blocks() && e.Mode != blocklist.Shadow
	}
	return e.Blocks()
}

func (w *listWriter) add(e *shown.Entry) error {
	if w.rules == nil {
		w.rules = map[string]bool{}
	}
	if e.Blocks() {
		w.rules[e.Rule] = true
	}

	if refusals, ok := w.refusals[e.ID]; ok {
		e.Refusals = refusals
	}
	if !w.wanted(e) {
		if w.form == "text" && !e.Blocks() && !w.shadow && len(w.orders) < maxShownOrders {
			w.orders = append(w.orders, listLine{rule: shown.Kind(e.Order), key: e.Key, row: w.row(e)})
			w.count++
		}
		return nil
	}

	w.count++
	line := listLine{first: w.first(e), rule: e.Rule, key: e.Key}
	switch w.form {
	case "json":
		text, err := e.MarshalJSON()
		if err != nil {
			return err
		}
		line.row.Cells = string(text)
	case "plain":
		line.row.Cells = e.Plain()
	default:
		line.row = w.row(e)
	}

	if w.lines = append(w.lines, line); len(w.lines) < maxSorted+w.limit {
		return nil
	}
	if w.limit > 0 {
		w.trim()
		return nil
	}
	return w.flushLines()
}

// first returns the number by which entries are sorted before their rules and keys, the smallest first.
func (w *listWriter) first(e *shown.Entry) int64 {
	switch w.sort {
	case "newest":
		return -max(e.Decided, e.From)
	case "until":
		return e.Until
	case "hits":
		return -e.Count
	case "refused":
		return -e.Refused
	}
	return 0
}

// trim sorts the lines that are buffered, and drops those beyond the limit.
func (w *listWriter) trim() {
	sortLines(w.lines)
	if over := len(w.lines) - w.limit; w.limit > 0 && over > 0 {
		w.more += over
		w.lines = slices.Delete(w.lines, w.limit, len(w.lines))
	}
}

// flushLines sorts the lines that are buffered and writes them.
func (w *listWriter) flushLines() error {
	w.trim()
	lines := w.lines
	w.lines = w.lines[:0]
	if w.form == "text" {
		return w.tables(lines)
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(w.out, line.row.Cells); err != nil {
			return err
		}
	}
	return nil
}

// sortLines sorts lines. Those of one key are sorted by their text, so that the order does not depend on the enforcer.
func sortLines(lines []listLine) {
	slices.SortFunc(lines, func(a, b listLine) int {
		return cmp.Or(cmp.Compare(a.first, b.first), strings.Compare(a.rule, b.rule), strings.Compare(a.key, b.key), strings.Compare(a.row.Cells, b.row.Cells))
	})
}

// tables writes lines as tables.
func (w *listWriter) tables(lines []listLine) error {
	for some := range slices.Chunk(lines, listRows) {
		refused := ""
		if len(w.refusals) > 0 {
			refused = "\tREFUSED"
		}
		rows := []output.Row{{Cells: "RULE\tKEY\t" + w.times.Zone("UNTIL") + refused + "\tWHY"}}
		for _, line := range some {
			rows = append(rows, line.row)
		}
		var b strings.Builder
		w.screen.Table(&b, rows)
		if _, err := w.out.WriteString(b.String()); err != nil {
			return err
		}
	}
	return nil
}

// row returns an entry as a row of a table. An unblock has no end: it is kept for a while, and lets no one through.
func (w *listWriter) row(e *shown.Entry) output.Row {
	rule, until, color := e.RuleName(), "-", output.Red
	if !e.Blocks() {
		rule, color = shown.Kind(e.Order), output.Green
	}
	if e.Until != blocklist.Never && e.Order != blocklist.OrderPardon {
		until = w.times.Until(e.Until)
	}

	why := e.WhyIn(w.times)
	held := w.held.of(e)
	switch {
	case e.Order == blocklist.OrderPardon:
		color = output.Plain
	case e.Mode == blocklist.Shadow:
		color = output.Yellow
	case held != "" && w.times.Local():
		why, color = held+", not refused: "+why, output.Yellow
	case held != "":
		why, color = why+" ("+held+": not refused)", output.Yellow
	}
	refused := ""
	switch {
	case len(w.refusals) == 0: // and there is no such column
	case e.Refused == 0:
		refused = "\t-"
	default:
		refused = "\t" + strconv.FormatInt(e.Refused, 10)
	}
	return output.Row{Cells: rule + "\t" + e.Target() + "\t" + until + refused + "\t" + why, Color: color}
}

// end writes the remaining lines, and for people the age of a list that is old.
func (w *listWriter) end(h blocklist.Header) error {
	if err := w.flushLines(); err != nil {
		return err
	}
	if w.form == "text" {
		w.people(h)
	}
	return w.out.Flush()
}

// ofRule names the rule that was asked for, so that a misspelled name does not look like an empty list.
func (w *listWriter) ofRule() string {
	if w.rule == "" {
		return ""
	}
	return " by a rule with the name " + w.rule
}

// people writes allows, pauses and remarks for people.
func (w *listWriter) people(h blocklist.Header) {
	if w.more > 0 {
		fmt.Fprintf(w.out, "(%s left out by --limit %d)\n", output.Counted(w.more, "entry"), w.limit)
	}
	if w.count == 0 && h.Version != (blocklist.Version{}) {
		fmt.Fprintln(w.out, "No key is on the list"+w.ofRule()+w.selected()+".")
	}
	if len(w.orders) > 0 && w.count > len(w.orders) {
		fmt.Fprintln(w.out)
	}

	sortLines(w.orders)
	_ = w.tables(w.orders) // the buffer keeps its error
	if h.AsOf == 0 {
		return
	}
	if age := time.Since(time.UnixMilli(h.AsOf)); age > staleAfter {
		fmt.Fprintf(w.out, "This is the list of %s ago: the aggregators have sent nothing since.\n", age.Round(time.Second))
	}
}

// selected describes the other flags that leave entries out.
func (w *listWriter) selected() (text string) {
	if w.shadow {
		text += " in shadow mode"
	}
	if w.listCommand.since != "" {
		text += " since " + w.listCommand.since
	}
	if w.listCommand.ip != "" {
		text += " with addresses in " + w.listCommand.ip
	}
	return text
}

// staleAfter is the age from which a list is reported as old: three of the watermarks that are written every 10 s.
const staleAfter = 35 * time.Second
