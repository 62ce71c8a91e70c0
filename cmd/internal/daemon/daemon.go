// Package daemon makes a process of a part of Weir: flags, configuration, log, signals, health, metrics.
//
// Main reads weir.yaml, opens the part, and runs it until a signal. SIGTERM and SIGINT make it unready, let it drain
// and end it with exit code 0; a second one ends it at once. The process reads the configuration again on SIGHUP, and when
// the rules, weir.yaml or files of prefixes change. When it has mistakes, the process logs them and keeps the previous
// configuration. Changed addresses, sources and settings of Kafka take effect at the next start.
//
// Exit codes: 0 ended by a signal; 1 it failed; 2 wrong flags or a wrong configuration.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"weir/cmd/internal/config"
	"weir/cmd/internal/exit"
	"weir/internal/telemetry"
	"weir/pkg/geoip"
)

// ending is the reason for which a process is not ready after a signal to end.
const ending = "ending"

// A Part is one of the daemons that a process can run.
type Part struct {
	Name  string                                           // collector
	About string                                           // what it does, in a sentence
	Admin func(*config.Config) (address, keys string)      // the address of status, metrics, health and profiles, and its file of keys
	Open  func(context.Context, *Process) (Running, error) // retries after errors that can pass, until the context is done

	Switches []Switch // its own flags
}

// A Switch is a flag that stands for a setting: enforcer --dry-run.
type Switch struct{ Name, About, Setting string }

// A Process contains the shared objects of a running part: its configuration, log, metrics and health.
type Process struct {
	Config  *config.Config
	Logger  *slog.Logger
	Metrics *prometheus.Registry
	Health  *telemetry.Health

	// Local has the topics and the store of this process; nil when they are elsewhere.
	Local *Local

	files  *rereads
	kept   []*keptFile    // open files whose loss makes it unready
	api    *http.ServeMux // the part's own endpoints, which require the role read
	others []*Process     // the parts of this process, and this one
	end    endAttempts    // of an enforcer
	part   string         // the name of the part; empty outside of a process with several
	hangup chan os.Signal
	served prometheus.Gatherers // the metrics at /metrics; empty means only Metrics
	all    prometheus.Gatherers // the metrics of all parts of the process; empty means only Metrics
}

// Gatherer gathers the metrics of all parts of the process.
func (p *Process) Gatherer() prometheus.Gatherer { return orOwn(p.all, p.Metrics) }

func orOwn(several prometheus.Gatherers, own *prometheus.Registry) prometheus.Gatherer {
	if len(several) > 0 {
		return several
	}
	return own
}

// Handle adds an endpoint to the admin address. It requires the role read.
func (p *Process) Handle(pattern string, handler http.Handler) {
	if p.api != nil {
		p.api.Handle(pattern, handler)
	}
}

// Reread makes the process read the configuration again soon.
func (p *Process) Reread() {
	select {
	case p.hangup <- syscall.SIGHUP:
	default: // a reload is due already
	}
}

// A Running is an open part.
type Running interface {
	Run(ctx context.Context) error // until the context is done
	Reload(c *config.Config) error // applies the settings that can change while it runs
	Status() any                   // for /status, as JSON
	Close() error                  // after Run
}

// Main runs a part as a process and returns its exit code.
func Main(part Part, args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // from now on a signal has its usual effect: the second one ends at once

	options, err := parse(part, args, stdout)
	if errors.Is(err, pflag.ErrHelp) {
		return exit.Done
	}
	if err != nil {
		fmt.Fprintln(stderr, part.Name+":", err)
		return exit.WrongUse
	}
	return Run(ctx, part, options, stderr)
}

// Run runs a part until the context is done and returns its exit code.
func Run(ctx context.Context, part Part, options config.Options, stderr io.Writer) int {
	// When journald or another reader of the log ends, the part works on without a log. It would end otherwise, and
	// systemd takes an end by this signal for a success, after which it restarts nothing.
	signal.Ignore(syscall.SIGPIPE)

	options.Opened = &geoip.Opened{}
	settings, warnings, err := config.Load(options)
	for _, warning := range warnings {
		fmt.Fprintln(stderr, warning)
	}

	if err != nil {
		fmt.Fprintln(stderr, err)
		return exit.WrongUse
	}

	// Only now is it known how to log: earlier messages went to stderr as they are.
	logger, err := telemetry.Log(stderr, string(settings.Log.Level), string(settings.Log.Format))
	if err != nil {
		fmt.Fprintln(stderr, part.Name+":", err)
		return exit.WrongUse
	}

	defer boundGarbage()()
	process := &Process{Config: settings, Logger: logger, Metrics: telemetry.Metrics(part.Name), Health: telemetry.NewHealth()}
	err = process.run(ctx, part, options)
	if err == nil {
		return exit.Done
	}

	logger.Error("ended", "error", err)
	if exit.IsWrong(err) {
		return exit.WrongUse
	}
	return exit.Failed
}

// run opens the part and runs it until the context is done.
func (p *Process) run(ctx context.Context, part Part, options config.Options) error {
	p.hangup = make(chan os.Signal, 1) // from the beginning: an early SIGHUP would end the process
	signal.Notify(p.hangup, syscall.SIGHUP)
	defer signal.Stop(p.hangup)
	p.files = &rereads{}
	defer p.files.watch(p.Logger)()

	// Served before the part is open: opening may wait for Kafka for long, and /readyz shows why.
	admin, err := p.serve(part.Admin(p.Config))
	if err != nil {
		return err
	}
	defer admin.close()

	before := p.look()
	running, err := part.Open(ctx, p)
	if err != nil {
		// Ended on request while it was opening, which is no failure.
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	if p.Config.RuleSet == nil {
		return errors.Join(exit.Wrong(errNoRules), running.Close())
	}

	reloader := newReloader(p, running, options, p.hangup)
	if p.look() != before {
		p.Reread() // files may change while opening waits for Kafka
	}

	p.Health.Status(p.files.withConfiguration(running.Status))
	p.Health.OnChange(p.notifyReady)
	p.Health.Ready()
	p.Logger.Info("runs", "part", part.Name, "version", telemetry.Version(), "configuration", p.Config.File, "rules", p.Config.RuleSet.Fingerprint())
	context.AfterFunc(ctx, func() { p.Health.Unready(ending) })

	// Helpers end before the part is closed: they use it.
	reloading, cancel := context.WithCancel(ctx)
	var helpers sync.WaitGroup
	helpers.Go(func() { reloader.run(reloading) })
	helpers.Go(func() { p.watchFolders(reloading) })
	err = running.Run(ctx)
	cancel()
	helpers.Wait()
	return errors.Join(err, running.Close())
}

// parse reads the flags.
func parse(part Part, args []string, stdout io.Writer) (config.Options, error) {
	options := config.Options{Environ: os.Environ()}
	flags := pflag.NewFlagSet(part.Name, pflag.ContinueOnError)
	flags.SetOutput(stdout)
	flags.StringVar(&options.File, "config", "", "the configuration (default: ./weir.yaml, then /etc/weir/weir.yaml)")
	flags.StringArrayVar(&options.Set, "set", nil, "replace a setting of the configuration: "+part.Name+".listen=127.0.0.1:7000; may be repeated")
	version := flags.Bool("version", false, "print the version and end")
	switches := make([]*bool, len(part.Switches))
	for i, s := range part.Switches {
		switches[i] = flags.Bool(s.Name, false, s.About)
	}

	flags.Usage = func() {
		fmt.Fprintf(stdout, "%s: %s\n\nUsage: %s [--config weir.yaml] [--set key=value]...\n\n%s", part.Name, part.About, part.Name, flags.FlagUsages())
	}
	if err := flags.Parse(args[1:]); err != nil {
		return options, err
	}
	if *version {
		fmt.Fprintln(stdout, part.Name, telemetry.Version())
		return options, pflag.ErrHelp
	}

	for i, s := range part.Switches {
		if *switches[i] {
			options.Set = append(options.Set, s.Setting)
		}
	}

	if flags.NArg() > 0 {
		return options, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return options, nil
}
