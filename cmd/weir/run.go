package main

import (
	"context"
	"io"
	"os"
	"sync"

	"github.com/spf13/cobra"

	"weir/cmd/internal/config"
	"weir/cmd/internal/daemon"
	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/command"
	"weir/cmd/weir/internal/demo"
	"weir/cmd/weir/internal/initial"
)

// A runCommand contains the flags of `weir run`.
type runCommand struct {
	options config.Options
	demo    bool
	usual   []string // where logs are looked for without a configuration

	site *demo.Site // nil without --demo
	logs initial.Logs
	out  io.Writer
}

// newRun makes the command; usual are the places of logs that it looks for without a configuration.
func newRun(usual []string) *cobra.Command {
	r := &runCommand{usual: usual}
	c := &cobra.Command{
		Use:   "run [flags]",
		Short: "Watch the logs of this machine: collector, aggregator and enforcer in one process",
		Long: `Run reads logs, counts by the rules and serves the blocklist, all in one process with its own store. You
install nothing else, and its data is in one folder. You may end or kill it at any time: the next run continues where
this one stopped.

Without a configuration it watches the access logs that it finds, with built-in rules and in shadow mode: it shows which
clients it would block, and refuses none. ` + "`weir init`" + ` writes these rules and settings to files.`,
		Example: `  weir run
  weir run --demo
  weir run --config /etc/weir/weir.yaml --set mode=shadow`,
		Args: command.NoArgs,
		RunE: r.run,
	}
	c.Flags().StringVar(&r.options.File, "config", "", "read the configuration `FILE` (default ./weir.yaml, then /etc/weir/weir.yaml)")
	c.Flags().StringArrayVar(&r.options.Set, "set", nil, "replace a setting of the configuration: `KEY=VALUE`; may be repeated")
	c.Flags().BoolVar(&r.demo, "demo", false, "run a small site with three abusers, and find them; the data is removed at the end")
	return c
}

func (r *runCommand) run(c *cobra.Command, _ []string) error {
	r.out, r.options.Environ = c.OutOrStdout(), os.Environ()
	if r.demo && r.options.File != "" {
		return exit.Wrongf("--demo has a configuration of its own; leave --config out")
	}

	if r.demo {
		site, err := demo.Open()
		if err != nil {
			return err
		}
		defer site.Close()
		r.site, r.options.File = site, site.Config()
	} else {
		r.logs = initial.Find(r.usual)
		r.options.Default = initial.Config(r.logs)
	}

	settings, _, err := config.Load(r.options) // daemon.Run reads it again and logs its warnings
	if err != nil {
		return exit.Wrong(err)
	}

	// Without a configuration the sources are the logs that were found, so there has to be one.
	if settings.File == "" {
		r.logs.Warn(c.ErrOrStderr())
		if err := r.logs.Missing(); err != nil {
			return exit.Wrong(err)
		}
	}

	return exit.Reported(daemon.Run(c.Context(), daemon.AllInOne(r.companion, daemon.Collector, daemon.Aggregator, daemon.Enforcer), r.options, c.ErrOrStderr()))
}

// companion runs next to the parts: it prints their summary, and runs the demonstration's site.
func (r *runCommand) companion(ctx context.Context, p *daemon.Process, status func() map[string]any) {
	summary := &runSummary{config: p.Config, metrics: p.Gatherer(), status: status, demo: r.demo, file: r.options.File}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { summary.print(ctx, r.out) })
	if r.site == nil {
		return
	}
	if err := r.site.Run(ctx, "http://"+p.Config.Enforcer.Listen+"/v1/check"); err != nil {
		p.Logger.Error("the demonstration site has ended", "error", err)
	}
}
