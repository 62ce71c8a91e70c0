package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/internal/config"
	"weir/cmd/internal/daemon"
	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/command"
	"weir/cmd/weir/internal/demo"
	"weir/cmd/weir/internal/initial"
	"weir/cmd/weir/internal/inspect"
	"weir/cmd/weir/internal/output"
	"weir/cmd/weir/internal/output/terminal"
)

// A runCommand contains the flags of `weir run`.
type runCommand struct {
	options config.Options
	demo    bool
	plain   bool
	usual   []string // where logs are looked for without a configuration

	site *demo.Site // nil without --demo
	logs initial.Logs
	out  io.Writer
	view *terminal.Region // nil where plain lines are written
}

// newRun makes the command; usual are the places of logs that it looks for without a configuration.
func newRun(usual []string) *cobra.Command {
	r := &runCommand{usual: usual}
	c := &cobra.Command{
		Use:   "run [flags]",
		Short: "Watch the logs of this machine, with all parts in one process",
		Long: `Run reads logs, counts by the rules and serves the blocklist, all in one process with its own store. You
install nothing else, and its data is in one folder. You may end or kill it at any time: the next run continues where
this one stopped.

Without a configuration it watches the access logs that it finds, with built-in rules and in shadow mode: it shows which
clients it would block, and refuses none. ` + "`weir init`" + ` writes these rules and settings to files.

In a terminal, the last lines show what is read, blocked and refused now, and the log scrolls by above them. In a pipe
there are only the lines of the log and a summary.`,
		Example: `  weir run
  weir run --demo
  weir run --config /etc/weir/weir.yaml --set mode=shadow`,
		Args: command.NoArgs,
		RunE: r.run,
	}
	c.Flags().StringVar(&r.options.File, "config", "", "read the configuration `FILE` (default ./weir.yaml, then /etc/weir/weir.yaml)")
	c.Flags().StringArrayVar(&r.options.Set, "set", nil, "replace a setting of the configuration: `KEY=VALUE`; may be repeated")
	c.Flags().BoolVar(&r.demo, "demo", false, "run a small site with three abusers, and find them; the data is removed at the end")
	c.Flags().BoolVar(&r.plain, "plain", false, "write plain lines, in a terminal too")
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

	stderr, began := c.ErrOrStderr(), time.Now()
	if !r.plain && terminal.Draws(r.out) {
		r.view = terminal.NewRegion(r.out.(*os.File))
		stderr = r.logAbove(settings, stderr)
		r.out = r.view
	}
	code := daemon.Run(c.Context(), daemon.AllInOne(r.companion, daemon.Collector, daemon.Aggregator, daemon.Enforcer), r.options, stderr)
	if r.view != nil {
		r.view.Close()
	}
	if r.site != nil && output.IsTerminal(c.OutOrStdout()) {
		fmt.Fprint(c.OutOrStdout(), r.site.Seen(time.Since(began)))
	}
	return exit.Reported(code)
}

// logAbove returns the place of the log next to a view: above it, unless the log goes elsewhere than to the terminal.
func (r *runCommand) logAbove(settings *config.Config, stderr io.Writer) io.Writer {
	if !output.IsTerminal(stderr) {
		return stderr
	}
	if settings.Log.Format == "auto" {
		r.options.Set = append(r.options.Set, "log.format=text") // as on a terminal
	}
	return r.view
}

// companion runs next to the parts: it prints their summary, and runs the demonstration's site.
func (r *runCommand) companion(ctx context.Context, p *daemon.Process, status func() map[string]any) {
	summary := &runSummary{config: p.Config, metrics: p.Gatherer(), status: status, demo: r.demo, file: r.options.File}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { summary.print(ctx, r.out) })
	if r.view != nil {
		running.Go(func() { r.show(ctx, summary) })
	}
	if r.site == nil {
		return
	}
	if err := r.site.Run(ctx, "http://"+p.Config.Enforcer.Listen+"/v1/check"); err != nil {
		p.Logger.Error("the demonstration site has ended", "error", err)
	}
}

// show draws the view until the context is done.
func (r *runCommand) show(ctx context.Context, summary *runSummary) {
	foot := "Ctrl-C ends it."
	if serves, _ := summary.config.Enforcer.ServesConsole(); serves {
		foot += "  Console: " + summary.config.Enforcer.TLS.URL(summary.config.Enforcer.Listen) + "/console/"
	}
	live := &inspect.Live{Settings: summary.config, Colors: output.Colorful(os.Stdout), Foot: foot, Counted: summary.counted}
	r.view.Show(live.Lines)
	defer r.view.Show(nil)
	live.Run(ctx)
}
