package offline

import (
	"cmp"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/command"
	"weir/cmd/weir/internal/output"
	"weir/pkg/backtest"
)

// A backtestCommand contains the flags of `weir backtest`.
type backtestCommand struct {
	version    string // of this program, for the page
	file       string // of the configuration
	rules      []string
	rulesFiles []string // paths and globs of the rules that are used, for the page
	limits     []string
	key        string
	read       command.Reading
	geoip      geoipFlag
	late       string
	algorithms []string
	against    string
	failIf     string
	never      string
	html       command.Page
	output     command.Output
}

func newBacktest(version string) *cobra.Command {
	b := &backtestCommand{version: version}
	c := &cobra.Command{
		Use:   "backtest [flags] FILE...|-|kafka://...|source:NAME",
		Short: "Run rules over logs: who would have been blocked, when and why",
		Long: `Backtest runs rules over logs. It shows which keys would have been blocked, from when, and by which limit.

Without --rules and --limit it uses the rules and the formats of weir.yaml.

It reads plain, .gz, .zst and .bz2 files, standard input (-), or what a topic has: kafka://HOST:PORT/TOPIC?from=2h&to=1h,
or kafka:///TOPIC for the brokers of weir.yaml. It reads what other servers have, too: source:NAME for a source of
weir.yaml, s3://BUCKET/PREFIX/, hdfs://HOST:PORT/PATH, kinesis://REGION/STREAM, journald:UNIT, redis://HOST:PORT/KEY,
nats://HOST:PORT/STREAM and amqp://HOST:PORT/QUEUE, each with ?from=2h&to=1h if you like. You may name several files,
such as a rotated log, in any order. Lines may be out of order by up to --late: the result is the same. Backtest counts
the lines that it cannot read, by reason.

Of attempts at inline rules (weir cat attempts --json), it decides each again by the rules, in their order, and shows which
verdicts are not the ones that were given.

The exit code is 3 when the condition of --fail-if is true, or when a key of --never would have been blocked.`,
		Example: `  weir backtest --limit 10/min --limit 100/hour access.log
  weir backtest --rules rules.yaml --html report.html access.log access.log.*.gz
  weir backtest --rules rules.yaml --against old-rules.yaml access.log
  weir backtest --limit 100/hour --key user --algorithms all access.log
  weir backtest --rules rules.yaml --fail-if 'refused > 0.1%' --json access.log
  weir backtest --limit 10/min 'kafka://localhost:9092/logs?from=6h'
  weir backtest --html report.html access.log    # next to a weir.yaml, with its rules
  weir cat attempts --json | weir backtest --rules rules.yaml -`,
		Args: command.Files,
		RunE: func(c *cobra.Command, args []string) error { return b.run(c, args) },
	}
	flags := c.Flags()
	flags.StringVar(&b.file, "config", "", "read the configuration `FILE` (default, without --rules and --limit, ./weir.yaml, then /etc/weir/weir.yaml)")
	flags.StringArrayVar(&b.rules, "rules", nil, "read rules from `FILE`, or a glob; may be repeated")
	flags.StringSliceVar(&b.limits, "limit", nil, "use the limit `N/TIME` instead of --rules: 10/min, 100/hour, 5/10s; may be repeated")
	flags.StringVar(&b.key, "key", "ip", "count by `FIELD`, with --limit: ip, user, ip/24+56, or several: ip,path")
	b.read.Add(c)
	b.geoip.add(c)
	flags.StringVar(&b.late, "late", "10m", "accept lines that are out of order by up to `DURATION`")
	flags.StringSliceVar(&b.algorithms, "algorithms", nil, "compare the window algorithms `NAMES`: all, or sliding,fixed,...")
	flags.StringVar(&b.against, "against", "", "compare with the rules of `FILE`, for example the active ones")
	flags.StringVar(&b.failIf, "fail-if", "", "end with exit code 3 if `CONDITION` is true: 'refused > 0.1%'")
	flags.StringVar(&b.never, "never", "", "end with exit code 3 if a key of `FILE`, one a line, would be blocked")
	b.html.Add(c)
	b.output.Add(c, "text", "json", "plain")
	c.PreRunE = func(c *cobra.Command, _ []string) error { return cmp.Or(noneEmpty(c.Flags()), b.output.Check()) }
	command.Complete(c, "algorithms", append([]string{"all"}, command.AlgorithmNames()...))
	command.Complete(c, "key", []string{"ip", "user", "host", "path", "ip/24+56", "ip/32+128"})
	return c
}

func (b *backtestCommand) run(c *cobra.Command, files []string) error {
	config, end, err := b.config(c, files)
	defer end()
	if err != nil {
		return err
	}
	if replays, err := b.replays(c, &config); err != nil || replays {
		return err
	}
	// Before the work, which may take long.
	if err := b.html.Try(); err != nil {
		return err
	}

	progress := output.NewProgress(c.ErrOrStderr(), "reading")
	config.Progress = progress.Show
	report, err := backtest.Run(c.Context(), config)
	progress.Done()
	if err != nil {
		return err
	}
	if err := b.writePage(report, command.Line(c)); err != nil {
		return err
	}

	return errors.Join(b.write(c, report), outcome(report))
}

// config reads the flags and the configuration. end ends what it opened.
func (b *backtestCommand) config(c *cobra.Command, files []string) (config backtest.Config, end func(), err error) {
	end = func() {}
	config = backtest.Config{Envelope: b.read.Envelope, Format: b.read.Format, Timelines: b.html.Wanted()}
	var problems []error
	note := func(err error) { problems = append(problems, err) }
	settings, err := b.configured(files)
	if err != nil {
		return config, end, err
	}
	config.Rules, err = b.set(c, settings)
	note(err)
	b.rulesFiles = b.rulesOf(settings)
	if b.against != "" {
		config.Against, err = b.loadAgainst(c, settings)
		note(err)
	}

	config.Options, err = b.read.Options()
	note(err)
	config.Client, err = b.read.Client()
	note(err)
	if settings != nil {
		note(b.readAs(c, settings, files, &config))
	}
	config.Late, err = b.lateness()
	note(err)
	if settings != nil && !c.Flags().Changed("late") {
		config.Judged = max(1, 2*time.Duration(settings.Time.Late)) // as an aggregator does; 0 would be another time
	}
	config.Algorithms, err = command.Algorithms(b.algorithms)
	note(err)
	config.FailIf, err = b.condition()
	note(err)
	config.Never, err = b.neverKeys()
	note(err)
	config.Inputs, end, err = inputs(c.Context(), files, c.InOrStdin(), settings)
	note(err)
	return config, end, errors.Join(problems...)
}

func (b *backtestCommand) write(c *cobra.Command, report *backtest.Report) error {
	out := c.OutOrStdout()
	switch b.output.Form {
	case "json":
		return report.WriteJSON(out)
	case "plain":
		return report.WriteKeys(out)
	}
	return report.WriteText(out, backtest.TextOptions{Top: 20, Color: output.Colorful(out), Width: output.Columns(out)})
}

// outcome returns an error for inputs that could not be read to their end, or for a condition that did not hold.
func outcome(report *backtest.Report) error {
	if len(report.Faults) > 0 {
		return faultsOf(report.Faults)
	}

	if report.Never != nil && len(report.Never.Violations) > 0 {
		v := report.Never.Violations[0]
		return exit.Unmetf("%s that must never be blocked would be; the first is %s, by %s of %s at %s",
			output.Counted(len(report.Never.Violations), "key"), v.Key, v.Limit, v.Rule, v.First)
	}
	if report.Failed() {
		return exit.Unmetf("%s holds: %s", report.FailIf.Condition, report.FailIf.Found)
	}

	return nil
}

// faultsOf returns an error for inputs that could not be read to their end.
func faultsOf(texts []string) error {
	var faults []error
	for _, text := range texts {
		faults = append(faults, errors.New(text))
	}
	return errors.Join(faults...)
}
