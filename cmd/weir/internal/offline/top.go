package offline

import (
	"cmp"

	"github.com/spf13/cobra"

	"weir/cmd/internal/config"
	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/command"
	"weir/cmd/weir/internal/output"
	"weir/pkg/backtest"
	"weir/pkg/rule"
)

// A Top is what `weir top` does with --by: it counts the values of a field in logs.
type Top struct {
	by string
	backtestCommand
}

// readingFlags say how logs are read.
var readingFlags = []string{"format", "envelope", "line", "zone", "field", "header", "trusted-proxy", "geoip"}

// Add adds the flags to a command that has --config.
func (t *Top) Add(c *cobra.Command) {
	c.Flags().StringVar(&t.by, "by", "", "show the values of `FIELD` that most requests in logs have: ip, path, agent, or several: ip,path")
	t.read.Add(c)
	t.geoip.add(c)
	command.Complete(c, "by", []string{"ip", "ip/24+56", "user", "host", "path", "method", "status", "agent", "referrer", "asn", "country"})
}

// Wanted reports whether --by is given. It refuses arguments and flags that mean nothing with it, or without it.
func (t *Top) Wanted(c *cobra.Command, logs []string) (bool, error) {
	if !c.Flags().Changed("by") {
		for _, flag := range readingFlags {
			if c.Flags().Changed(flag) {
				return false, exit.Wrongf("--%s is for logs, which are counted with --by; for example: weir top --by path access.log", flag)
			}
		}
		if len(logs) > 0 {
			return false, exit.Wrongf("name the field to count in %s: weir top --by path %s", logs[0], command.Quote(logs[0]))
		}
		return false, nil
	}

	if err := noneEmpty(c.Flags()); err != nil {
		return false, err
	}
	if len(logs) == 0 {
		return false, exit.Wrongf("a running system has no counts by %s, as its rules may not need them; count in the logs: weir top --by %s access.log", t.by, command.Quote(t.by))
	}
	for _, flag := range []string{"rule", "aggregator", "url", "key-file", "set", "plain"} {
		if c.Flags().Changed(flag) {
			return false, exit.Wrongf("--%s is for a running system, and --by counts in logs; leave one out", flag)
		}
	}
	return true, command.Files(c, logs)
}

// Run counts, and writes the heaviest values, so many.
func (t *Top) Run(c *cobra.Command, logs []string, number int, form string) error {
	if _, err := rule.ParseKey(t.by); err != nil {
		return exit.Wrongf("--by: %w", err)
	}
	t.limits, t.key, t.late = []string{"1/s"}, t.by, "10m" // a rule that counts each request; nothing is blocked
	t.file = cmp.Or(c.Flag("config").Value.String(), config.Find())
	settings, end, err := t.config(c, logs)
	defer end()
	if err != nil {
		return err
	}

	progress := output.NewProgress(c.ErrOrStderr(), "reading")
	settings.Progress = progress.Show
	report, err := backtest.Top(c.Context(), settings, number)
	progress.Done()
	if err != nil {
		return err
	}

	out := c.OutOrStdout()
	switch form {
	case "json":
		err = report.WriteJSON(out)
	case "plain":
		err = report.WriteKeys(out)
	default:
		err = report.WriteText(out, backtest.TextOptions{Color: output.Colorful(out), Width: output.Columns(out)})
	}
	return cmp.Or(err, faultsOf(report.Faults))
}
