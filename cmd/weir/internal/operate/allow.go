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
	f := &fileCommand{orderCommand: o}
	c := &cobra.Command{
		Use:   "allow [flags] TARGET",
		Short: "Let an address, a prefix or a user through for a while",
		Long: `Allow makes a manual entry that lets a target through, whatever else the list contains. It is active at once at the
enforcer that is asked, and everywhere as soon as the topics have it. A target is an address, a prefix, or a field with
its value: user:alice. An end is required, which may be forever; --end takes the allow back. More than a /8 (of IPv6: a
/19) needs a confirmation; --yes answers in scripts. Clients that should always be let through belong in the rules.

With --file the targets are those of a file, up to 10,000, one a line. Allow then shows what they affect, and asks.`,
		Example: `  weir allow 198.51.100.0/24 --for 4h --why 'load test, ask bob'
  weir allow user:alice --for forever --why 'our own monitoring'
  weir allow 198.51.100.0/24 --end --why 'the test is over'
  weir allow --file networks.txt --for forever --why 'our own networks'`,
		Args: f.oneTargetOrFile,
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case f.path != "" && f.end:
				return f.endAll(c, allowsPath)
			case f.path != "":
				return f.allowAll(c)
			case f.end:
				return o.endAllow(c, args[0])
			}
			return o.allow(c, args[0])
		},
	}

	o.add(c)
	o.addYes(c)
	f.add(c, "allow")
	return c
}

func (o *orderCommand) allow(c *cobra.Command, target string) error {
	order, err := o.allowOrder(c)
	if err != nil {
		return err
	}
	order.Target = target
	return o.change(c, http.MethodPost, allowsPath, nil, &order, func(a *orderAnswer) string {
		return fmt.Sprintf("%s is let through %s.\n", a.Order.Target(), a.Order.UntilIn(a.times))
	})
}

// allowOrder makes the request's body from the flags.
func (o *orderCommand) allowOrder(c *cobra.Command) (newOrder, error) {
	order, err := o.order(c, time.Now())
	if err == nil && order.For == "" && order.Until == "" {
		err = exit.Wrongf("give an end with --for or --until; for example: %s --for 4h", command.Line(c))
	}
	return order, err
}

// allowAll allows the targets of the file.
func (f *fileCommand) allowAll(c *cobra.Command) error {
	order, err := f.allowOrder(c)
	if err != nil {
		return err
	}
	return f.run(c, allowsPath, order)
}

// endAll ends the allows, or the blocks, of the targets of the file.
func (f *fileCommand) endAll(c *cobra.Command, path string) error {
	if err := f.endsNow(); err != nil {
		return err
	}
	return f.run(c, path, newOrder{Why: f.reason("ended by hand")})
}

// endsNow refuses flags that --end does not go with.
func (o *orderCommand) endsNow() error {
	if o.lasts != "" || o.until != "" {
		return exit.Wrongf("--end goes without --for and --until: it ends now")
	}
	return nil
}

func (o *orderCommand) endAllow(c *cobra.Command, target string) error {
	if err := o.endsNow(); err != nil {
		return err
	}
	query := url.Values{"target": {target}, "why": {o.reason("ended by hand")}}
	return o.change(c, http.MethodDelete, allowsPath, query, nil, func(*orderAnswer) string {
		return fmt.Sprintf("The allow of %s is over.\n", target)
	})
}
