package offline

import (
	"github.com/spf13/cobra"

	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/output"
	"weir/pkg/backtest"
)

// replays decides attempts at inline rules again, if the inputs are records of these.
func (b *backtestCommand) replays(c *cobra.Command, config *backtest.Config) (done bool, err error) {
	of := 0
	for i := range config.Inputs {
		in, is, err := backtest.IsAttempts(c.Context(), config.Inputs[i])
		if err != nil {
			return false, err
		}
		config.Inputs[i] = in
		if is {
			of++
		}
	}
	switch {
	case of == 0:
		return false, nil
	case of < len(config.Inputs):
		return true, exit.Wrongf("some inputs have attempts at inline rules, and others do not; give one kind at a time")
	}
	for _, flag := range []string{"html", "against", "never", "fail-if", "format", "envelope", "field", "only"} {
		if c.Flags().Changed(flag) {
			return true, exit.Wrongf("--%s is not for attempts at inline rules; leave it out", flag)
		}
	}

	progress := output.NewProgress(c.ErrOrStderr(), "reading")
	report, err := backtest.Replay(c.Context(), backtest.ReplayConfig{Rules: config.Rules, Inputs: config.Inputs, Algorithms: config.Algorithms, Progress: progress.Show})
	progress.Done()
	if err != nil {
		return true, err
	}
	out := c.OutOrStdout()
	switch b.output.Form {
	case "json":
		return true, report.WriteJSON(out)
	case "plain":
		return true, report.WriteKeys(out)
	}
	return true, report.WriteText(out)
}
