package operate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/internal/daemon"
	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/command"
	"weir/cmd/weir/internal/live"
	"weir/cmd/weir/internal/output"
	"weir/internal/nearest"
	"weir/pkg/notify"
)

func newNotify() *cobra.Command {
	c := &cobra.Command{
		Use:     "notify",
		Short:   "Try the receivers of notifications",
		Example: "  weir notify test",
		Args:    command.Known,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newNotifyTest())
	return c
}

func newNotifyTest() *cobra.Command {
	var flags live.Flags
	c := &cobra.Command{
		Use:   "test [flags] [RECEIVER]",
		Short: "Send a test message to one receiver, or to all",
		Long: `Test sends a test message from this machine, once, to the receivers under notify in weir.yaml, and prints their answers.
Its exit code is 1 when a receiver does not accept the message.`,
		Example: `  weir notify test
  weir notify test slack --config /etc/weir/weir.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exit.Wrongf("notify test takes the name of one receiver, or none for all")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return testReceivers(c, &flags, args) },
	}
	flags.Add(c)
	return c
}

func testReceivers(c *cobra.Command, flags *live.Flags, args []string) error {
	settings, err := flags.LoadButRules()
	if err != nil {
		return exit.Wrong(err)
	}
	receivers := daemon.Receivers(settings)
	if len(receivers) == 0 {
		return exit.Wrongf("the configuration has no receivers; write notify: [{name: ops, webhook: {url: https://host/path}}]")
	}
	if len(args) == 1 {
		var names []string
		for _, r := range receivers {
			names = append(names, r.Name)
		}
		at := slices.Index(names, args[0])
		if at < 0 {
			return exit.Wrongf("there is no receiver %q; %s", args[0], nearest.Suggest(args[0], names, "there are: "))
		}
		receivers = receivers[at : at+1]
	}

	var rows []string
	failed := 0
	for i := range receivers {
		row, ok := testReceiver(c.Context(), &receivers[i])
		rows = append(rows, row)
		if !ok {
			failed++
		}
	}
	var b strings.Builder
	output.Table(&b, rows)
	fmt.Fprint(c.OutOrStdout(), b.String())
	if failed > 0 {
		return fmt.Errorf("%s did not accept the message", output.Counted(failed, "receiver"))
	}
	return nil
}

func testReceiver(ctx context.Context, r *notify.Receiver) (row string, ok bool) {
	answer, err := r.Try(ctx, notify.TestMessage(r, time.Now()))
	result := "ok"
	if err != nil {
		result, answer = "ERROR", err.Error()
	}
	return fmt.Sprintf("%s\t%s\t%s\t%s", result, r.Name, r.To.Kind(), output.Printable(strings.Join(strings.Fields(answer), " "))), err == nil
}
