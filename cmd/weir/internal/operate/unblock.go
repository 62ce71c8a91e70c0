package operate

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/command"
	"weir/cmd/weir/internal/output"
	"weir/cmd/weir/internal/shown"
	"weir/internal/duration"
	"weir/pkg/blocklist"
)

// An unblockCommand contains the flags of `weir unblock`.
type unblockCommand struct {
	orderCommand
	rule  string
	allow string
}

func newUnblock() *cobra.Command {
	u := &unblockCommand{}
	c := &cobra.Command{
		Use:   "unblock [flags] KEY",
		Short: "Let a blocked client back in at once",
		Long: `Unblock ends every entry on the list that applies to a key, made by a rule or by hand, and makes the rules forget their
counts of the key. When the command ends, the enforcer that it asked lets the client through; all other enforcers do so
as soon as the topics have the change. It works without Kafka, and while the counting is behind.

Name a key as the list shows it (alice /login), an address, a prefix, or a field with its value (user:alice). An address
also matches the entries of prefixes that contain it. A client that keeps sending too much is blocked again: --allow 4h
also lets it through for four hours. If no entry applies to the key, the exit code is 3.

If somebody blocked by hand a network that contains the address, ending that block lets the complete network in. So
unblock names the network and asks first. In a script it only warns; the next version will require --yes there.`,
		Example: `  weir unblock 203.0.113.7
  weir unblock 2001:db8::5 --allow 4h --why 'their batch job, they know'
  weir unblock 'alice /login' --rule sign-in`,
		Args: command.OneKey,
		RunE: func(c *cobra.Command, args []string) error { return u.run(c, args[0]) },
	}
	u.addBrief(c)
	u.addYes(c)
	c.Flags().StringVar(&u.rule, "rule", "", "end only the entries of one `RULE`")
	c.Flags().StringVar(&u.allow, "allow", "", "also let the client through for `TIME`: 4h")
	return c
}

func (u *unblockCommand) run(c *cobra.Command, key string) error {
	query := url.Values{"key": {key}, "why": {u.reason("unblocked by hand")}}
	if u.rule != "" {
		query.Set("rule", u.rule)
	}

	if u.allow != "" {
		if lasts, err := duration.Parse(u.allow); err != nil || lasts == 0 {
			return exit.Wrongf("--allow %s is not a time; write how long to let the client through, such as 4h", u.allow)
		}
		query.Set("allow", u.allow)
	}

	around, err := u.around(c.Context(), key)
	if err != nil {
		return err
	}
	if len(around) > 0 && output.IsTerminal(c.InOrStdin()) {
		if err := u.confirm(c, around); err != nil {
			return err
		}
	} else if len(around) > 0 { // a script: those of the version before have no --yes
		fmt.Fprintf(c.ErrOrStderr(), "weir: warning: this affects %s; the next version will need --yes for that\n", output.Printable(strings.Join(around, "; ")))
	}

	return u.change(c, http.MethodDelete, blocksPath, query, nil, func(a *orderAnswer) string { return a.unblocked(key) })
}

// around describes the blocks of networks by hand that contain the key and more. A rule's entry for a prefix is not among
// them: the prefix is what the rule counts as one client. When they cannot be asked for, the unblock goes on: it is for
// emergencies, and its answer shows what it ended.
func (u *unblockCommand) around(ctx context.Context, key string) (networks []string, err error) {
	inner := addressesOf(key)
	if !inner.IsValid() || u.yes {
		return nil, nil
	}
	enforcer, err := u.enforcer.Connect()
	if err != nil {
		return nil, err
	}
	defer enforcer.Close()

	var found struct{ Entries []*shown.Entry }
	if err := enforcer.Find(ctx, key, cmp.Or(u.rule, blocklist.ManualRule), "", &found); err != nil {
		return nil, nil
	}
	for _, e := range found.Entries {
		if isAround(e, inner) {
			networks = append(networks, fmt.Sprintf("the network %s, which %s blocked (%s): everyone in it is let in; to let in only this one, use weir allow %s --for 4h --why WHY",
				e.Key, output.Printable(e.By), output.Printable(e.Why), command.Quote(key)))
		}
	}
	return networks, nil
}

// addressesOf returns the addresses that a key names; an invalid prefix when it names none.
func addressesOf(key string) netip.Prefix {
	scope, value, err := blocklist.ParseTarget(key)
	if err != nil || scope != "ip" {
		return netip.Prefix{}
	}
	return shown.Prefix(value)
}

// isAround reports whether an entry is a block by hand of a network that contains a prefix and more.
func isAround(e *shown.Entry, inner netip.Prefix) bool {
	network := shown.Prefix(e.Fields["ip"])
	return e.Source == blocklist.Manual && network.IsValid() && network.Bits() < inner.Bits() && network.Overlaps(inner)
}

// limitWords describes the reason of a verdict. It is empty for a manual entry, whose words are now those of the person
// who ended it.
func limitWords(e *shown.Entry, times shown.Times) string {
	if e.Source == blocklist.Manual {
		return ""
	}
	return " (" + e.WhyIn(times) + ")"
}

// unblocked describes the entries that were removed, and whether the client still sends requests.
func (a *orderAnswer) unblocked(key string) string {
	var b strings.Builder
	for i := range a.Lifted {
		e := &a.Lifted[i]
		fmt.Fprintf(&b, "Taken off: %s by %s, %s%s.\n", e.Target(), e.RuleName(), e.UntilIn(a.times), limitWords(e, a.times))
		if inner := addressesOf(key); inner.IsValid() && isAround(e, inner) {
			fmt.Fprintf(&b, "That was the block of the network around %s: everyone in %s is let in again.\n", key, e.Target())
		}
	}

	if len(a.Lifted) == 0 {
		fmt.Fprintf(&b, "No entry on the list applied to %s.\n", key)
	}
	if a.Allowed != nil {
		fmt.Fprintf(&b, "%s is let through %s, whatever it does.\n", a.Allowed.Target(), a.Allowed.UntilIn(a.times))
	}
	if a.Sending != nil && a.Note == "" {
		fmt.Fprintf(&b, "This enforcer refused the last request %s ago.\n", a.Sending.Age)
	}
	if a.Sending != nil && a.Allowed == nil {
		fmt.Fprintf(&b, "To let it through whatever it does: weir unblock %s --allow 4h\n", command.Quote(key))
	}

	return b.String()
}
