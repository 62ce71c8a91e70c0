package operate

import (
	"net/http"
	"net/url"

	"github.com/spf13/cobra"
)

func newResume() *cobra.Command {
	o := &orderCommand{}
	c := &cobra.Command{
		Use:   "resume [flags] [RULE]",
		Short: "End a pause",
		Long: `Resume ends the pause of a rule. Without a rule it ends the pause of everything. Keys on the list are refused again.
Pauses of single rules continue until they are ended by name. If nothing was paused, the exit code is 3.`,
		Example: "  weir resume\n  weir resume per-ip --why 'the rule is corrected'",
		Args:    oneRule,
		RunE:    func(c *cobra.Command, args []string) error { return o.resume(c, append(args, "")[0]) },
	}
	o.addBrief(c)
	return c
}

func (o *orderCommand) resume(c *cobra.Command, rule string) error {
	query := url.Values{"why": {o.reason("resumed by hand")}}
	if rule != "" {
		query.Set("rule", rule)
	}

	return o.change(c, http.MethodDelete, pausePath, query, nil, func(*orderAnswer) string {
		if rule == "" {
			return "The pause of everything is over: keys on the list are refused.\n"
		}
		return "The pause of " + rule + " is over: its keys on the list are refused.\n"
	})
}
