package offline

import (
	"cmp"

	"github.com/spf13/cobra"

	"weir/cmd/internal/config"
	"weir/cmd/weir/internal/command"
	"weir/cmd/weir/internal/output"
	"weir/pkg/backtest"
)

// windowsToSuggest are the windows for a key without a rule. The hits do not matter.
var windowsToSuggest = []string{"1/min", "1/hour", "1/day"}

func newSuggest() *cobra.Command {
	b := &backtestCommand{}
	c := &cobra.Command{
		Use:   "suggest [flags] FILE...",
		Short: "Propose limits from the peaks of the keys in logs",
		Long: `Suggest reads logs and proposes limits for each rule and each of its windows, such as a minute and a day. It shows the
peaks of the keys, and whom the limits would have blocked. It changes nothing: you write the limits into the rules.

Of the peaks in the top twentieth it looks for the widest gap, and puts the limit into it if the higher peak is more than
three times the lower one. Otherwise the limit is twice the highest peak. It cannot know whether a key far above the others
is an offender or a good customer, so look at the keys that it lists.

The rules are those of --rules or of weir.yaml. With --key, or without any rules, it counts all requests by the key, per
minute, hour and day. The logs are read once for each length of a window, and once more.`,
		Example: `  weir suggest access.log
  weir suggest --key ip/24+48 access.log access.log.*.gz
  weir suggest --rules rules.yaml --output json access.log`,
		Args: command.Files,
		RunE: func(c *cobra.Command, args []string) error { return b.suggest(c, args) },
	}
	flags := c.Flags()
	flags.StringVar(&b.file, "config", "", "read the configuration `FILE` (default, without --rules and --key, ./weir.yaml, then /etc/weir/weir.yaml)")
	flags.StringArrayVar(&b.rules, "rules", nil, "read rules from `FILE`, or a glob; may be repeated")
	flags.StringVar(&b.key, "key", "ip", "count all requests by `FIELD`: ip, user, ip/24+56, or several: ip,path")
	b.read.Add(c)
	b.geoip.add(c)
	flags.StringVar(&b.late, "late", "10m", "accept lines that are out of order by up to `DURATION`")
	b.output.Add(c, "text", "json")
	c.PreRunE = func(c *cobra.Command, _ []string) error { return cmp.Or(noneEmpty(c.Flags()), b.output.Check()) }
	command.Complete(c, "key", []string{"ip", "user", "host", "path", "ip/24+56", "ip/32+128"})
	return c
}

func (b *backtestCommand) suggest(c *cobra.Command, files []string) error {
	if c.Flags().Changed("key") || len(b.rules) == 0 && b.file == "" && config.Find() == "" {
		b.limits = windowsToSuggest
	}
	settings, end, err := b.config(c, files)
	defer end()
	if err != nil {
		return err
	}

	progress := output.NewProgress(c.ErrOrStderr(), "reading")
	settings.Progress = progress.Show
	suggestions, err := backtest.Suggest(c.Context(), settings)
	progress.Done()
	if err != nil {
		return err
	}

	out := c.OutOrStdout()
	if b.output.Form == "json" {
		err = suggestions.WriteJSON(out)
	} else {
		err = suggestions.WriteText(out, backtest.TextOptions{Color: output.Colorful(out), Width: output.Columns(out)})
	}
	return cmp.Or(err, faultsOf(suggestions.Faults))
}
