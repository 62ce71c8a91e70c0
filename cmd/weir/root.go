package main

import (
	"errors"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/command"
	"weir/cmd/weir/internal/initial"
	"weir/cmd/weir/internal/inspect"
	"weir/cmd/weir/internal/offline"
	"weir/cmd/weir/internal/operate"
	"weir/cmd/weir/internal/replay"
	"weir/internal/nearest"
)

// newRoot puts the commands together. It sets started when a command's own work begins: an error before that is wrong
// use.
func newRoot(started *bool) *cobra.Command {
	root := &cobra.Command{
		Use:   "weir",
		Short: "Find the users who send too many requests, off the request path",
		Long: `Weir finds clients and users that send too many requests, from your access logs, and has your edges refuse them.

Rules name the requests to count, the key to count by, and the limits. Try them on yesterday's log before you enforce
them.`,
		Example: `  weir run
  weir backtest --limit 10/min --limit 100/hour access.log
  weir backtest --rules rules.yaml --html report.html access.log*
  weir check rules.yaml`,
		Args:              command.Known,
		RunE:              func(c *cobra.Command, _ []string) error { return c.Help() },
		Version:           version(),
		SilenceUsage:      true,
		SilenceErrors:     true,
		PersistentPreRunE: func(*cobra.Command, []string) error { *started = true; return nil },
	}
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(newRun(initial.Usual()), initial.Command(), replay.Command(), newVersion(), newMan())
	root.AddCommand(operate.Commands()...)
	root.AddCommand(inspect.Commands(version(), new(offline.Top))...)
	root.AddCommand(offline.Commands(version())...)
	root.InitDefaultCompletionCmd("completion")
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Args, c.RunE = command.Known, root.RunE
			c.Example = "  weir completion bash > /etc/bash_completion.d/weir"
		}
	}
	root.SetHelpCommand(newHelp(root))
	command.Narrow(root)
	return root
}

// newHelp is cobra's help command, but help about an unknown command is an error.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:     "help [command]",
		Short:   "Show what a command does",
		Example: "  weir help backtest",
		RunE: func(_ *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			if err == nil && len(rest) > 0 {
				err = command.Known(c, rest)
			}
			if err != nil {
				return exit.Wrong(err)
			}

			c.InitDefaultHelpFlag()
			return c.Help()
		},
	}
}

// flagError describes what is wrong with a flag, and names the flag that was probably meant.
func flagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if invalid := (*pflag.InvalidValueError)(nil); errors.As(err, &invalid) {
		if invalid.GetFlag().Value.Type() == "int" && errors.Is(err, strconv.ErrSyntax) {
			return exit.Wrongf("--%s: %q is not a number; %s --help shows how it is used", invalid.GetFlag().Name, invalid.GetValue(), c.CommandPath())
		}
		return exit.Wrongf("--%[2]s: %[1]q is not a valid value: %[3]w; %[4]s --help shows how it is used", invalid.GetValue(), invalid.GetFlag().Name, exit.Cause(err), c.CommandPath())
	}
	if !errors.As(err, &unknown) {
		return exit.Wrongf("%w; %s --help shows how it is used", err, c.CommandPath())
	}

	name := unknown.GetSpecifiedName()
	if cluster := unknown.GetSpecifiedShortnames(); cluster != "" {
		name = cluster
		if c.Flags().Lookup(cluster) != nil {
			return exit.Wrongf("unknown flag -%s; flags take two dashes: --%s", cluster, cluster)
		}
	}

	if near := nearestFlag(c.Flags(), name); near != "" {
		return exit.Wrongf("unknown flag --%s; did you mean --%s?", name, near)
	}
	return exit.Wrongf("unknown flag --%s; %s --help shows all", name, c.CommandPath())
}

// nearestFlag returns the flag that name is most likely a misspelling of; empty when none is near.
func nearestFlag(flags *pflag.FlagSet, name string) string {
	var known []string
	flags.VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	return nearest.Word(name, known)
}
