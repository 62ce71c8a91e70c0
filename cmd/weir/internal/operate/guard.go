package operate

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/ask"
	"weir/cmd/weir/internal/command"
	"weir/cmd/weir/internal/output"
	"weir/cmd/weir/internal/shown"
	"weir/pkg/blocklist"
	"weir/pkg/rule"
)

const guardPath = "/v1/guard"

// guardCommand shows the rules whose guard keeps blocks from being enforced.
type guardCommand struct {
	enforcer ask.Flags
	output   command.Output
}

func newGuard() *cobra.Command {
	g := &guardCommand{}
	c := &cobra.Command{
		Use:   "guard [flags]",
		Short: "Show the rules whose guard holds blocks back, or confirm one",
		Long: `Guard shows the rules that have had more new blocks in a minute than their guard lets through: how many clients of each
are shown and not refused, and whether a person has confirmed the rule. The exit code is 0 when there are none, too.`,
		Example: `  weir guard
  weir guard confirm per-ip --for 1h --why 'a real attack'
  weir guard end per-ip`,
		Args: command.Known,
		RunE: func(c *cobra.Command, _ []string) error { return g.run(c) },
	}
	g.enforcer.Add(c)
	g.output.Add(c, "text", "json")
	c.AddCommand(newGuardConfirm(), newGuardEnd())
	return c
}

func newGuardConfirm() *cobra.Command {
	o := &orderCommand{}
	c := &cobra.Command{
		Use:   "confirm [flags] RULE",
		Short: "Enforce the blocks that a rule's guard keeps back",
		Long: `Confirm has the blocks of a rule enforced that its guard keeps from being enforced, those that are listed and those that
come. It lasts an hour unless --for or --until says otherwise. It is active at once at the enforcer that is asked, and
everywhere as soon as the topics have it.`,
		Example: "  weir guard confirm per-ip --why 'a real attack'\n  weir guard confirm per-ip --for 4h --why 'a real attack'",
		Args:    namedRule,
		RunE:    func(c *cobra.Command, args []string) error { return o.confirmGuard(c, args[0]) },
	}
	o.add(c)
	return c
}

func newGuardEnd() *cobra.Command {
	o := &orderCommand{}
	c := &cobra.Command{
		Use:   "end [flags] RULE",
		Short: "End the confirmation of a rule",
		Long: `End takes a confirmation back: blocks that the rule's guard keeps back are only shown again. If the rule was not
confirmed, the exit code is 3.`,
		Example: "  weir guard end per-ip --why 'these were customers'",
		Args:    namedRule,
		RunE:    func(c *cobra.Command, args []string) error { return o.endGuard(c, args[0]) },
	}
	o.addBrief(c)
	return c
}

// namedRule takes the name of a rule.
func namedRule(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return exit.Wrongf("%s takes the name of one rule; for example: %s", c.Name(), command.Example(c))
	}
	return nil
}

func (o *orderCommand) confirmGuard(c *cobra.Command, rule string) error {
	order, err := o.order(c, time.Now())
	if err != nil {
		return err
	}
	order.Rule = rule
	return o.change(c, http.MethodPost, guardPath, nil, &order, func(a *orderAnswer) string {
		return fmt.Sprintf("%s is confirmed %s: the blocks that its guard keeps back are enforced.\n", rule, a.Order.UntilIn(a.times))
	})
}

func (o *orderCommand) endGuard(c *cobra.Command, rule string) error {
	query := url.Values{"why": {o.reason("ended by hand")}, "rule": {rule}}
	return o.change(c, http.MethodDelete, guardPath, query, nil, func(*orderAnswer) string {
		return "The confirmation of " + rule + " is over: the blocks that its guard keeps back are only shown.\n"
	})
}

func (g *guardCommand) run(c *cobra.Command) error {
	enforcer, err := g.enforcer.Connect()
	if err != nil {
		return err
	}
	defer enforcer.Close()
	var answer struct {
		Rules []struct {
			Rule      string       `json:"rule"`
			MostNew   int64        `json:"most_new"`
			MostShare float64      `json:"most_share"`
			Guarded   int          `json:"guarded"`
			ByShare   int          `json:"guarded_by_share"`
			Confirmed *shown.Entry `json:"confirmed"`
		} `json:"rules"`
	}
	raw, err := enforcer.Ask(c.Context(), http.MethodGet, guardPath, nil, nil, &answer)
	if err != nil {
		return err
	}
	if g.output.Form == "json" {
		return output.JSON(c.OutOrStdout()).Encode(raw)
	}
	if len(answer.Rules) == 0 {
		fmt.Fprintln(c.OutOrStdout(), "No guard keeps blocks from being enforced.")
		return nil
	}

	times := shown.NewTimes(c.OutOrStdout(), time.Now())
	t := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "RULE\tGUARD\tGUARDED\tBEYOND\tSTATE")
	for _, r := range answer.Rules {
		var bounds []string
		if r.MostNew > 0 {
			bounds = append(bounds, fmt.Sprintf("%d/min", r.MostNew))
		}
		if share := (rule.Guard{MostShare: r.MostShare}); !share.Off() {
			bounds = append(bounds, share.ShareText())
		}
		beyond, state := "", "not refused"
		if r.Guarded > 0 {
			beyond = blocklist.GuardedRule{Entries: r.Guarded, ByShare: r.ByShare}.Beyond()
		}
		if r.Confirmed != nil {
			state = "confirmed " + r.Confirmed.UntilIn(times) + ", " + r.Confirmed.Reason()
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\n", output.Printable(r.Rule), strings.Join(bounds, ", "), r.Guarded, beyond, state)
	}
	return t.Flush()
}
