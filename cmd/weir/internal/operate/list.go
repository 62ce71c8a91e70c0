package operate

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/ask"
	"weir/cmd/weir/internal/command"
	"weir/cmd/weir/internal/output"
	"weir/cmd/weir/internal/shown"
	"weir/pkg/backtest"
	"weir/pkg/blocklist"
)

// A listCommand contains the flags of `weir list`.
type listCommand struct {
	enforcer ask.Flags
	rule     string
	shadow   bool
	orders   bool
	output   command.Output
}

func newList() *cobra.Command {
	l := &listCommand{}
	c := &cobra.Command{
		Use:   "list [flags] [KEY...]",
		Short: "Show the blocklist, or the entries that apply to a key",
		Long: `List shows each blocked key with its rule, its end and the reason, as an enforcer has it. With keys it shows the entries
that apply to them. Name a key as the list shows it (alice /login), an address, a prefix, or a field with its value
(user:alice). An address also matches the entries of prefixes that contain it. The exit code is 3 when no entry applies
to one of the keys.

Keys that rules in shadow mode would block are shown with a remark; --shadow shows only these. The text form has allows
and pauses below the list; --orders shows all manual entries. -o plain is for other tools: the refused keys, one a line,
without those in shadow mode.`,
		Example: `  weir list
  weir list 2001:db8::5
  weir list --rule per-ip --json
  weir list -o plain`,
		RunE: func(c *cobra.Command, keys []string) error { return l.run(c, keys) },
	}
	l.enforcer.Add(c)
	c.Flags().StringVar(&l.rule, "rule", "", "show the entries of one `RULE`; manual entries have the rule manual")
	c.Flags().BoolVar(&l.shadow, "shadow", false, "show only the keys that rules in shadow mode would block")
	c.Flags().BoolVar(&l.orders, "orders", false, "show the manual entries: blocks, allows and pauses")
	l.output.Add(c, "text", "json", "plain")
	return c
}

func (l *listCommand) run(c *cobra.Command, keys []string) error {
	if l.shadow && l.orders {
		return exit.Wrongf("--shadow and --orders are both given, and manual entries are never in shadow mode; leave one out")
	}

	enforcer, err := l.enforcer.Connect()
	if err != nil {
		return err
	}
	defer enforcer.Close()
	writer := &listWriter{listCommand: l, form: l.output.Form, out: bufio.NewWriterSize(c.OutOrStdout(), 64<<10)}
	if len(keys) > 0 {
		return l.find(c, enforcer, writer, keys)
	}

	list, err := enforcer.List(c.Context(), l.query())
	if err != nil {
		return err
	}
	defer list.Close()
	for entry, err := range list.All() {
		if err == nil {
			err = writer.add(&shown.Entry{Entry: *entry})
		}
		if err != nil {
			return err
		}
	}
	return writer.end(list.Header)
}

func (l *listCommand) query() url.Values {
	if l.rule == "" {
		return nil
	}
	return url.Values{"rule": {l.rule}}
}

// find shows the entries that cover each of the keys.
func (l *listCommand) find(c *cobra.Command, enforcer *ask.Enforcer, writer *listWriter, keys []string) error {
	var missed []error
	for _, key := range keys {
		before := writer.count
		if err := l.pages(c, enforcer, writer, key); err != nil {
			return err
		}
		if writer.count == before {
			missed = append(missed, exit.Unmetf("no entry on the list applies to %s", key))
		}
	}

	if err := l.pauses(c.Context(), enforcer, writer); err != nil {
		return errors.Join(writer.end(blocklist.Header{}), err)
	}
	return errors.Join(writer.end(blocklist.Header{}), errors.Join(missed...))
}

// pauses shows the pauses that keep entries from refusing anyone: the pause of everything, and those of the rules of the
// entries that were found. No key leads to them, so all manual entries are read.
func (l *listCommand) pauses(ctx context.Context, enforcer *ask.Enforcer, writer *listWriter) error {
	if writer.form != "text" && !l.orders {
		return nil
	}

	list, err := enforcer.List(ctx, url.Values{"rule": {blocklist.ManualRule}})
	if err != nil {
		return err
	}
	defer list.Close()
	for entry, err := range list.All() {
		if err == nil && entry.Order == blocklist.OrderPause && (entry.Key == blocklist.EveryRule || writer.rules[entry.Key]) {
			err = writer.add(&shown.Entry{Entry: *entry})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pages shows all pages of the entries that cover a key.
func (l *listCommand) pages(c *cobra.Command, enforcer *ask.Enforcer, writer *listWriter, key string) error {
	after := ""
	for {
		var found struct {
			Entries, Orders []*shown.Entry
			Next            string
		}

		if err := enforcer.Find(c.Context(), key, l.rule, after, &found); err != nil {
			return errors.Join(writer.end(blocklist.Header{}), err)
		}
		for _, entry := range append(found.Entries, found.Orders...) {
			if err := writer.add(entry); err != nil {
				return err
			}
		}

		if after = found.Next; after == "" {
			return nil
		}
	}
}

// A listWriter shows entries in one of three forms, sorted by rule and key. It buffers at most maxSorted entries and
// maxShownOrders manual entries.
type listWriter struct {
	*listCommand
	form   string
	out    *bufio.Writer
	count  int             // of entries that were shown, or will be
	rules  map[string]bool // of the entries
	lines  []listLine      // not written yet
	orders []listLine      // allows and pauses, shown to people below the list
}

// A listLine is an entry as it is written, with its place in the order.
type listLine struct{ rule, key, text string }

// maxSorted is how many entries are sorted together. A longer list is sorted in parts of this size.
const maxSorted = 200_000

// listRows is how many rows are aligned as one table.
const listRows = 500

// maxShownOrders is how many allows and pauses are shown to people.
const maxShownOrders = 1000

// wanted reports whether the flags select an entry.
func (w *listWriter) wanted(e *shown.Entry) bool {
	switch {
	case w.rule != "" && e.Rule != w.rule:
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

	if !w.wanted(e) {
		if w.form == "text" && !e.Blocks() && !w.shadow && len(w.orders) < maxShownOrders {
			w.orders = append(w.orders, listLine{shown.Kind(e.Order), e.Key, listRow(e)})
			w.count++
		}
		return nil
	}

	w.count++
	line := listLine{rule: e.Rule, key: e.Key}
	switch w.form {
	case "json":
		text, err := e.MarshalJSON()
		if err != nil {
			return err
		}
		line.text = string(text)
	case "plain":
		line.text = output.Printable(e.Key)
	default:
		line.text = listRow(e)
	}

	if w.lines = append(w.lines, line); len(w.lines) == maxSorted {
		return w.flushLines()
	}
	return nil
}

// flushLines sorts the lines that are buffered and writes them.
func (w *listWriter) flushLines() error {
	lines := sorted(w.lines)
	w.lines = w.lines[:0]
	if w.form == "text" {
		return w.tables(lines)
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(w.out, line); err != nil {
			return err
		}
	}
	return nil
}

// sorted returns the texts of lines by rule and key. Lines of one key are sorted by their text, so that the order does not
// depend on the enforcer.
func sorted(lines []listLine) []string {
	slices.SortFunc(lines, func(a, b listLine) int {
		return cmp.Or(strings.Compare(a.rule, b.rule), strings.Compare(a.key, b.key), strings.Compare(a.text, b.text))
	})
	texts := make([]string, len(lines))
	for i, line := range lines {
		texts[i] = line.text
	}
	return texts
}

// tables writes rows as tables.
func (w *listWriter) tables(rows []string) error {
	for some := range slices.Chunk(rows, listRows) {
		var b strings.Builder
		output.Table(&b, append([]string{"RULE\tKEY\tUNTIL\tWHY"}, some...))
		if _, err := w.out.WriteString(b.String()); err != nil {
			return err
		}
	}
	return nil
}

func listRow(e *shown.Entry) string {
	rule := e.RuleName()
	if !e.Blocks() {
		rule = shown.Kind(e.Order)
	}
	until := "-"
	if e.Until != blocklist.Never {
		until = backtest.Instant(e.Until).String()
	}
	return rule + "\t" + e.Target() + "\t" + until + "\t" + e.WhyText()
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
	if w.count == 0 && h.Version != (blocklist.Version{}) {
		fmt.Fprintln(w.out, "No key is on the list"+w.ofRule()+".")
	}
	if len(w.orders) > 0 && w.count > len(w.orders) {
		fmt.Fprintln(w.out)
	}

	_ = w.tables(sorted(w.orders)) // the buffer keeps its error
	if h.AsOf == 0 {
		return
	}
	if age := time.Since(time.UnixMilli(h.AsOf)); age > staleAfter {
		fmt.Fprintf(w.out, "This is the list of %s ago: the aggregators have sent nothing since.\n", age.Round(time.Second))
	}
}

// staleAfter is the age from which a list is reported as old: three of the watermarks that are written every 10 s.
const staleAfter = 35 * time.Second
