package offline

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/cmd/internal/config"
	"weir/cmd/internal/exit"
	"weir/internal/duration"
	"weir/pkg/backtest"
	"weir/pkg/geoip"
	"weir/pkg/rule"
)

// set returns the rules to run: those of the files, or one made of the limits, or those of the configuration.
func (b *backtestCommand) set(c *cobra.Command, settings *config.Config) (*rule.Set, error) {
	switch {
	case len(b.rules) > 0 && len(b.limits) > 0:
		return nil, exit.Wrongf("--rules and --limit are both given; leave one out")
	case len(b.limits) == 0 && c.Flags().Changed("key"):
		return nil, exit.Wrongf("--key is for --limit, and rules have keys of their own; leave it out")
	case len(b.limits) == 0 && len(b.rules) == 0 && settings == nil:
		return nil, exit.Wrongf("there is no weir.yaml here, and no limit to check; give --limit 10/min, or --rules rules.yaml")
	case len(b.limits) == 0 && len(b.rules) == 0 && len(b.geoip.paths) == 0:
		return settings.RuleSet, nil
	}

	databases, err := b.geoip.open(settings)
	switch {
	case err != nil:
		return nil, err
	case len(b.rules) > 0:
		return loadRules(c, databases, b.rules...)
	case len(b.limits) == 0:
		set := settings.RuleSet.Located(databases)
		if err := set.Unlocated(); err != nil {
			return nil, exit.Wrong(err)
		}
		return set, nil
	}
	set, err := rule.FromLimits(b.limits, b.key)
	if err != nil {
		return nil, exit.Wrong(err)
	}
	return set.Located(databases), nil
}

// loadRules reads rules with the databases that they may use, and writes their warnings to standard error.
func loadRules(c *cobra.Command, databases *geoip.Databases, patterns ...string) (*rule.Set, error) {
	source := rule.Source{Patterns: patterns, GeoIP: databases}
	set, warnings, err := source.Load("")
	for _, warning := range warnings {
		fmt.Fprintln(c.ErrOrStderr(), "warning:", warning)
	}
	if err != nil {
		return nil, exit.Wrong(err)
	}
	return set, nil
}

func (b *backtestCommand) loadAgainst(c *cobra.Command, settings *config.Config) (*rule.Set, error) {
	databases, err := b.geoip.open(settings)
	if err != nil {
		return nil, err
	}
	return loadRules(c, databases, b.against)
}

func (b *backtestCommand) lateness() (time.Duration, error) {
	late, err := duration.Parse(b.late)
	if err != nil {
		return 0, exit.Wrongf("--late: %w", err)
	}
	if late == duration.Forever {
		return 0, exit.Wrongf("--late: forever is not possible; give a time such as 24h")
	}
	return max(late, time.Millisecond), nil // 0 is the default to pkg/backtest
}

func (b *backtestCommand) condition() (condition backtest.Condition, err error) {
	if b.failIf == "" {
		return condition, nil
	}
	if condition, err = backtest.ParseCondition(b.failIf); err != nil {
		err = exit.Wrongf("--fail-if: %w", err)
	}
	return condition, err
}

func (b *backtestCommand) neverKeys() (keys *backtest.KeyList, err error) {
	if b.never == "" {
		return nil, nil
	}
	if keys, err = backtest.OpenKeyList(b.never); err != nil {
		err = exit.Wrongf("--never: %w", err)
	}
	return keys, err
}

// noneEmpty refuses flags with an empty value: an unset variable of a script must not turn a check off.
func noneEmpty(flags *pflag.FlagSet) error {
	var faults []error
	flags.Visit(func(f *pflag.Flag) {
		if text := f.Value.String(); slices.Contains([]string{"", "[]", `[""]`}, text) {
			value, _ := pflag.UnquoteUsage(f)
			faults = append(faults, exit.Wrongf("--%s is empty; give it its %s, or leave it out", f.Name, value))
		}
	})
	return errors.Join(faults...)
}
