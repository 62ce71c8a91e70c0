package operate

import (
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/command"
)

func newPause() *cobra.Command {
	o := &orderCommand{}
	c := &cobra.Command{
		Use:   "pause [flags] [RULE]",
		Short: "Make one rule, or all rules, refuse no one for a while",
		Long: `Pause makes a rule refuse no one. Without a rule, neither rules nor manual blocks refuse anyone. It is active at once at
the enforcer that is asked, and everywhere as soon as the topics have it. Counting continues and the list is kept: when
the pause ends, or at weir resume, the keys that are still on the list are refused again.`,
		Example: `  weir pause --for 1h --why 'false alarms since the release'
  weir pause per-ip --for 30m --why 'a mistake in the rule'`,
		Args: oneRule,
		RunE: func(c *cobra.Command, args []string) error { return o.pause(c, append(args, "")[0]) },
	}

	o.add(c)
	return c
}

// oneRule takes the name of a rule, or none for all.
func oneRule(c *cobra.Command, args []string) error {
	if len(args) > 1 {
		return exit.Wrongf("%s takes the name of one rule, or none for all; for example: %s", c.Name(), command.Example(c))
	}
	return nil
}

func (o *orderCommand) pause(c *cobra.Command, rule string) error {
	order, err := o.order(c, time.Now())
	if err != nil {
		return err
	}
	order.Rule = rule
	return o.change(c, http.MethodPost, pausePath, nil, &order, func(a *orderAnswer) string {
		if rule == "" {
			return fmt.Sprintf("Everything is paused %s: no one is refused.\n", a.Order.UntilIn(a.times))
		}
		return fmt.Sprintf("%s is paused %s: it refuses no one.\n", rule, a.Order.UntilIn(a.times))
	})
}
