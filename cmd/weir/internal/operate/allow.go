package operate

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/command"
)

func newAllow() *cobra.Command {
	o := &orderCommand{}
	end := false
	c := &cobra.Command{
		Use:   "allow [flags] TARGET",
		Short: "Let an address, a prefix or a user through for a while, whatever it does",
		Long: `Allow makes a manual entry that lets a target through, whatever else the list contains. It is active at once at the
enforcer that is asked, and everywhere as soon as the topics have it. A target is an address, a prefix, or a field with
its value: user:alice. An end is required, which may be forever; --end takes the allow back. More than a /8 (of IPv6: a
/19) needs a confirmation; --yes answers in scripts. Clients that should always be let through belong in the rules.`,
		Example: `  weir allow 198.51.100.0/24 --for 4h --why 'load test, ask bob'
  weir allow user:alice --for forever --why 'our own monitoring'
  weir allow 198.51.100.0/24 --end --why 'the test is over'`,
		Args: oneTarget,
		RunE: func(c *cobra.Command, args []string) error {
			if end {
				return o.endAllow(c, args[0])
			}
			return o.allow(c, args[0])
		},
	}

	o.add(c)
	o.addYes(c)
	c.Flags().BoolVar(&end, "end", false, "take the allow back")
	return c
}

func (o *orderCommand) allow(c *cobra.Command, target string) error {
	order, err := o.order(c, time.Now())
	if err != nil {
		return err
	}
	if order.For == "" && order.Until == "" {
		return exit.Wrongf("give an end with --for or --until; for example: %s --for 4h", command.Line(c))
	}
	order.Target = target
	return o.change(c, http.MethodPost, allowsPath, nil, &order, func(a *orderAnswer) string {
		return fmt.Sprintf("%s is let through %s.\n", a.Order.Target(), a.Order.UntilIn(a.times))
	})
}

func (o *orderCommand) endAllow(c *cobra.Command, target string) error {
	if o.lasts != "" || o.until != "" {
		return exit.Wrongf("--end goes without --for and --until: it ends now")
	}
	query := url.Values{"target": {target}, "why": {o.reason("ended by hand")}}
	return o.change(c, http.MethodDelete, allowsPath, query, nil, func(*orderAnswer) string {
		return fmt.Sprintf("The allow of %s is over.\n", target)
	})
}
