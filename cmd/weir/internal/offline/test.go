package offline

import (
	"errors"

	"github.com/spf13/cobra"

	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/command"
	"weir/cmd/weir/internal/output"
	"weir/pkg/backtest"
)

func newTest() *cobra.Command {
	var verbose bool
	var output command.Output
	c := &cobra.Command{
		Use:   "test [flags] FILE...",
		Short: "Test rules on small cases: who must be blocked, and who never",
		Long: `Test runs the cases of one or more files. A case has requests, or a log, with the keys that must be blocked, by which
rule and when, and the keys that must never be. It is for continuous integration.

The exit code is 3 when a test fails, and 2 when a file has mistakes.`,
		Example: `  weir test rules_test.yaml`,
		Args:    command.Files,
		RunE: func(c *cobra.Command, files []string) error {
			var problems []error
			for _, file := range files {
				report, err := backtest.RunTests(c.Context(), file)
				if err == nil {
					err = errors.Join(writeTests(c, report, output.Form, verbose), held(report))
				}
				problems = append(problems, err)
			}
			return errors.Join(problems...)
		},
	}
	c.Flags().BoolVar(&verbose, "verbose", false, "also name the tests that passed")
	output.Add(c, "text", "json")
	return c
}

func writeTests(c *cobra.Command, report *backtest.TestReport, form string, verbose bool) error {
	if form == "json" {
		return output.JSON(c.OutOrStdout()).Encode(report)
	}
	return report.WriteText(c.OutOrStdout(), verbose)
}

func held(report *backtest.TestReport) error {
	failed := report.Failed()
	if failed == 0 {
		return nil
	}
	return exit.Unmetf("%s: %d of %d tests failed", report.File, failed, len(report.Cases))
}
