package inspect

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/internal/config"
	"weir/cmd/internal/daemon"
	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/command"
	"weir/cmd/weir/internal/live"
	"weir/cmd/weir/internal/output"
	"weir/internal/duration"
	"weir/internal/nearest"
	"weir/internal/topic"
	"weir/pkg/attempts"
	"weir/pkg/backtest"
	"weir/pkg/rule"
	"weir/pkg/window"
)

// A compareCommand contains the flags of `weir compare`.
type compareCommand struct {
	version    string // of this program, for the page
	live       live.Flags
	from       string
	until      string
	algorithms []string
	html       command.Page
	output     command.Output
}

func newCompare(version string) *cobra.Command {
	k := &compareCommand{version: version}
	c := &cobra.Command{
		Use:   "compare [flags] RULE",
		Short: "Show what other algorithms would have decided for an inline rule",
		Long: `Compare reads the attempts at an inline rule that enforcers have written to their topic (inline.history), and decides each
again: by the rule as it is, and under each algorithm of its word try, or of --algorithms, or else under all. For each it
shows how many attempts are admitted and refused, which keys are refused most, how many get through over time, the most
that gets through of one key within the time of a limit, and the memory and the time that it takes.

It changes nothing, and no part of Weir has to run. If there are no attempts, the exit code is 3.`,
		Example: `  weir compare quota
  weir compare quota --from 1h --algorithms token,uniform
  weir compare quota --from 2026-03-03T08:00:00Z --html quota.html`,
		Args: oneRule,
		RunE: func(c *cobra.Command, args []string) error { return k.run(c, args[0]) },
	}
	k.live.Add(c)
	c.Flags().StringVar(&k.from, "from", "earliest", "begin at `WHERE`: earliest, 7d before now, or a time such as 2026-03-03T08:00:00Z")
	c.Flags().StringVar(&k.until, "until", "", "end at `WHERE`: 1h before now, or a time")
	c.Flags().StringSliceVar(&k.algorithms, "algorithms", nil, "compare the algorithms `NAMES`: all, or sliding,fixed,... (default those of try, or all)")
	k.html.Add(c)
	k.output.Add(c, "text", "json")
	command.Complete(c, "algorithms", append([]string{"all"}, command.AlgorithmNames()...))
	return c
}

func oneRule(c *cobra.Command, args []string) error {
	if len(args) == 1 && args[0] != "" {
		return nil
	}
	return exit.Wrongf("compare needs the name of one rule; for example: %s", command.Example(c))
}

func (k *compareCommand) run(c *cobra.Command, name string) error {
	now := time.Now()
	since, err := momentOf("from", k.from, now)
	if err != nil {
		return err
	}
	until, err := momentOf("until", k.until, now)
	if err != nil {
		return err
	}
	settings, err := k.live.Load()
	if err != nil {
		return err
	}
	of, err := inlineRule(settings, name)
	if err != nil {
		return err
	}
	algorithms, err := k.strategies(of)
	if err != nil {
		return err
	}
	if err := k.html.Try(); err != nil {
		return err
	}

	made, err := compareAttempts(c, settings, backtest.CompareConfig{Rules: settings.RuleSet, Rule: name, Algorithms: algorithms, Since: since, Until: until, Settle: time.Duration(settings.Inline.Settle)})
	if err != nil {
		return err
	}
	if made.Attempts == 0 && !made.OfQueue() {
		return exit.Unmetf("%s has no attempts at %s", settings.Kafka.Prefix+daemon.Attempts, name)
	}
	options := backtest.HTMLOptions{Version: k.version, Command: command.Line(c)}
	if err := k.html.Write(func(w io.Writer) error { return made.WriteHTML(w, options) }); err != nil {
		return err
	}
	out := c.OutOrStdout()
	if k.output.Form == "json" {
		return made.WriteJSON(out)
	}
	return made.WriteText(out, backtest.TextOptions{Color: output.Colorful(out), Width: output.Columns(out)})
}

// strategies are those of the flag, of the rule, or all.
func (k *compareCommand) strategies(of *rule.Rule) ([]window.Algorithm, error) {
	algorithms, err := command.Algorithms(k.algorithms)
	if err == nil && len(algorithms) == 0 {
		algorithms = of.Try
	}
	if err == nil && len(algorithms) == 0 {
		algorithms = window.Algorithms()
	}
	return algorithms, err
}

// inlineRule finds the rule of a name.
func inlineRule(settings *config.Config, name string) (*rule.Rule, error) {
	var known []string
	if settings.RuleSet != nil {
		for _, r := range settings.RuleSet.Rules {
			if r.Name == name && r.Inline {
				return r, nil
			}
			if r.Name == name {
				return nil, exit.Wrongf("the rule %s is not decided inline, so it has no attempts; weir backtest --algorithms all compares algorithms by logs", name)
			}
			if r.Inline {
				known = append(known, r.Name)
			}
		}
	}
	if len(known) == 0 {
		return nil, exit.Wrongf("there is no inline rule here; compare is for rules with inline: true")
	}
	return nil, exit.Wrongf("there is no rule %s; %s", name, nearest.Suggest(name, known, "the inline rules are "))
}

// momentOf reads a place in time in Unix milliseconds; 0 is none.
func momentOf(flag, text string, now time.Time) (int64, error) {
	if text == "" || flag == "from" && text == "earliest" {
		return 0, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at.UnixMilli(), nil
	}
	before, err := duration.Parse(text)
	if err != nil || before == duration.Forever {
		return 0, exit.Wrongf("--%s %s is not a time; write a time before now, such as 7d, or one such as 2026-03-03T08:00:00Z", flag, text)
	}
	return now.Add(-before).UnixMilli(), nil
}

// compareAttempts reads the topic of attempts, and compares by what it has.
func compareAttempts(c *cobra.Command, settings *config.Config, compare backtest.CompareConfig) (*backtest.Comparison, error) {
	name := settings.Kafka.Prefix + daemon.Attempts
	client, err := live.Connect(settings, c.ErrOrStderr(), name)
	if err != nil {
		return nil, err
	}
	defer client.Close()

	from := catFrom{offset: atEarliest}
	if compare.Since > 0 {
		// The windows at that time have attempts from before.
		from = catFrom{offset: beforeNow, before: time.Since(time.UnixMilli(compare.Since)) + longestWindow(settings.RuleSet)}
	}
	compare.Records = func(add func([]byte) error) error {
		ctx, stop := context.WithCancelCause(c.Context())
		defer stop(nil)
		r := &catRun{client: client, topic: name, shown: newCatWriter(io.Discard, c.ErrOrStderr(), name, "text")}
		r.newShow = func(int) func(*topic.Record) {
			var repeats attempts.Repeats
			return func(record *topic.Record) {
				if mark, ok := attempts.MarkOf(string(record.Value)); ok {
					if repeats.Has(mark) {
						return
					}
					repeats.See(mark)
				}
				if err := add(record.Value); err != nil {
					stop(err)
				}
			}
		}
		err := r.open(ctx, from, -1)
		if err == nil {
			err = r.run(ctx, false)
		}
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return errors.Join(err, r.shown.end())
	}
	return backtest.Compare(c.Context(), compare)
}

// longestWindow is the longest time of a limit of an inline rule.
func longestWindow(set *rule.Set) (longest time.Duration) {
	for _, r := range set.Rules {
		if r.Inline {
			longest = max(longest, slices.MaxFunc(r.Limits, func(a, b rule.Limit) int { return cmp.Compare(a.Per, b.Per) }).Per)
		}
	}
	return longest
}
