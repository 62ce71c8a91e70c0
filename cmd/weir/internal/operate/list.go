package operate

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/ask"
	"weir/cmd/weir/internal/command"
	"weir/cmd/weir/internal/shown"
	"weir/pkg/blocklist"
)

// A listCommand contains the flags of `weir list`.
type listCommand struct {
	enforcer ask.Flags
	rule     string
	shadow   bool
	orders   bool
	limit    int
	sort     string
	since    string
	ip       string
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
  weir list --since 1h --sort newest --limit 20
  weir list -o plain`,
		RunE: func(c *cobra.Command, keys []string) error { return l.run(c, keys) },
	}
	l.enforcer.Add(c)
	c.Flags().StringVar(&l.rule, "rule", "", "show the entries of one `RULE`; manual entries have the rule manual")
	c.Flags().BoolVar(&l.shadow, "shadow", false, "show only the keys that rules in shadow mode would block")
	c.Flags().BoolVar(&l.orders, "orders", false, "show the manual entries: blocks, allows and pauses")
	c.Flags().IntVar(&l.limit, "limit", 0, "show at most `N` entries; 0 is all")
	c.Flags().StringVar(&l.sort, "sort", "rule", "sort by `WHAT`: "+strings.Join(sorts, ", "))
	c.Flags().StringVar(&l.since, "since", "", "show entries that were made since `TIME`: 1h before now, or 2026-03-03T08:00:00Z")
	c.Flags().StringVar(&l.ip, "ip", "", "show entries of addresses within `PREFIX`, or of prefixes that contain it")
	command.Complete(c, "sort", sorts)
	l.output.Add(c, "text", "json", "plain")
	return c
}

func (l *listCommand) run(c *cobra.Command, keys []string) error {
	if l.shadow && l.orders {
		return exit.Wrongf("--shadow and --orders are both given, and manual entries are never in shadow mode; leave one out")
	}

	writer, err := newListWriter(l, c.OutOrStdout(), time.Now())
	if err != nil {
		return err
	}
	enforcer, err := l.enforcer.Connect()
	if err != nil {
		return err
	}
	defer enforcer.Close()
	if writer.form == "text" {
		if writer.held, err = askHeld(c.Context(), enforcer); err != nil {
			return err
		}
	}

	if writer.form != "plain" || l.sort == "refused" {
		if writer.refusals, err = askRefusals(c.Context(), enforcer, l.rule); err != nil {
			return err
		}
	}

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
