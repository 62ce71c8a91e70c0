package operate

import (
	"fmt"
	"net/http"
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
counts of the key. It is active at the enforcer that is asked before the command ends, and everywhere as soon as Kafka
has it. It works without Kafka, and while the counting is behind.

A key is one that the list shows (alice /login), an address (also found in prefixes that contain it), a prefix, or a
field with its value (user:alice). A client that keeps sending too much is blocked again: --allow 4h lets it through
meanwhile. If no entry applies to the key, the exit code is 3.`,
		Example: `  weir unblock 203.0.113.7
  weir unblock 2001:db8::5 --allow 4h --why 'their batch job, they know'
  weir unblock 'alice /login' --rule sign-in`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 || strings.TrimSpace(args[0]) == "" {
				return exit.Wrongf("unblock needs one key, in quotes if it has spaces; for example: %s", command.Example(c))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return u.run(c, args[0]) },
	}
	u.addBrief(c)
	u.addYes(c)
	c.Flags().StringVar(&u.rule, "rule", "", "end only the entries of one `RULE`")
	c.Flags().StringVar(&u.allow, "allow", "", "also let the client through for `TIME`: 4h")
	return c
}

func (u *unblockCommand) run(c *cobra.Command, key string) (err error) {
	if u.form, err = u.output.Chosen(); err != nil {
		return err
	}
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

	return u.change(c, http.MethodDelete, blocksPath, query, nil, func(a *orderAnswer) string { return a.unblocked(key) })
}

// limitWords describes the reason of a verdict. It is empty for a manual entry, whose words are now those of the person
// who ended it.
func limitWords(e *shown.Entry) string {
	if e.Source == blocklist.Manual {
		return ""
	}
	return " (" + e.WhyText() + ")"
}

// unblocked describes the entries that were removed, and whether the client still sends requests.
func (a *orderAnswer) unblocked(key string) string {
	var b strings.Builder
	for i := range a.Lifted {
		e := &a.Lifted[i]
		fmt.Fprintf(&b, "Taken off: %s by %s, %s%s.\n", e.Target(), e.Rule, e.UntilText(), limitWords(e))
	}

	if len(a.Lifted) == 0 {
		fmt.Fprintf(&b, "No entry on the list applied to %s.\n", key)
	}
	if a.Allowed != nil {
		fmt.Fprintf(&b, "%s is let through %s, whatever it does.\n", a.Allowed.Target(), a.Allowed.UntilText())
	}
	if a.Sending != nil && a.Note == "" {
		fmt.Fprintf(&b, "This enforcer refused the last request %s ago.\n", a.Sending.Age)
	}
	if a.Sending != nil && a.Allowed == nil {
		fmt.Fprintf(&b, "To let it through whatever it does: weir unblock %s --allow 4h\n", output.Quote(key))
	}

	return b.String()
}
