package inspect

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/internal/config"
	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/command"
	"weir/cmd/weir/internal/initial"
	"weir/cmd/weir/internal/output"
	"weir/cmd/weir/internal/shown"
	"weir/pkg/backtest"
	"weir/pkg/blocklist"
	"weir/pkg/rule"
)

// An explainCommand contains the flags of `weir explain`.
type explainCommand struct {
	ask    aggregatorFlags
	rule   string
	local  bool // times are local although the output is not a terminal
	output command.Output
}

func newExplain() *cobra.Command {
	e := &explainCommand{}
	c := &cobra.Command{
		Use:   "explain [flags] KEY",
		Short: "Show the counts of a key under each limit, and its entries",
		Long: `Explain asks the aggregators for the counts of a key under each limit, and when each count clears if no more hits come.
It asks an enforcer for the entries on the list that apply to the key, with the last requests that counted for them, and for the counts of inline rules. If attempts at inline rules are kept, it shows the last five of the last 15 minutes. A key is an address (counted as the prefix that a
rule makes of it), a field with its value (user:alice), or a key as the list shows it (alice /login).

The rules are those of the configuration here, or the one that --rule names. Without a configuration they are those of a
weir run without one. If nothing is counted and nothing is on the list, the exit code is 3.`,
		Example: `  weir explain 203.0.113.7
  weir explain user:alice --json
  weir explain alice --aggregator http://a1:7411 --aggregator http://a2:7411`,
		Args: command.OneKey,
		RunE: func(c *cobra.Command, args []string) error { return e.run(c, args[0]) },
	}
	e.ask.add(c)
	c.Flags().StringVar(&e.rule, "rule", "", "ask about one `RULE` only")
	e.output.Add(c, "text", "json")
	return c
}

// An explanation contains all that is known of a key, as `weir explain --json` writes it.
type explanation struct {
	Key     string         `json:"key"`
	Entries []*shown.Entry `json:"entries"`        // on the list
	Orders  []*shown.Entry `json:"orders"`         // manual entries that let it through
	Next    string         `json:"next,omitempty"` // not empty when /v1/find has more entries
	Sending *shown.Sending `json:"sending,omitempty"`
	Counted []*countedKey  `json:"counted"`

	Evidence []*shown.Evidence `json:"evidence,omitempty"` // the last requests that counted for entries

	Attempts []json.RawMessage `json:"attempts,omitempty"` // the last ones at inline rules, newest first
	tries    []try

	Faults []string `json:"faults"` // the errors of parts that could not be asked
}

func (e *explainCommand) run(c *cobra.Command, key string) error {
	// With --rule the command works even when the rules here have mistakes.
	load := e.ask.enforcer.Live.Load
	if e.rule != "" {
		load = func() (*config.Config, error) { return e.ask.enforcer.Live.LoadAnyhow(c.ErrOrStderr()) }
	}

	settings, err := load()
	if err != nil {
		return err
	}

	asked, err := e.ask.open(settings)
	if err != nil {
		return err
	}

	assumed := settings.RuleSet == nil && e.rule == ""
	if assumed {
		settings.RuleSet = initial.Rules()
	}

	known := &explanation{Key: key, Entries: []*shown.Entry{}, Orders: []*shown.Entry{}, Counted: []*countedKey{}, Faults: []string{}}
	// Where the rules are only assumed, an aggregator that does not count the key need not be an error.
	names, inline := e.rules(settings, key, (*rule.Rule).AggregatorsCount), e.rules(settings, key, func(r *rule.Rule) bool { return r.Inline })
	if settings.RuleSet == nil || e.rule != "" && len(names)+len(inline) == 0 {
		names = []ruleKey{{e.rule, key}}
	}
	faults, unknown := e.askAggregators(c, asked, names, known)
	switch {
	case !assumed:
		faults = append(faults, unknown...)
	case len(unknown) > 0 && len(known.Counted) == 0:
		faults = append(faults, errNoRules)
	}

	faults = append(faults, e.askEnforcer(c, key, inline, known))
	if len(inline) > 0 && settings.KeepsAttempts() {
		faults = append(faults, e.findAttempts(c, settings, key, known))
	}
	return errors.Join(known.show(c.OutOrStdout(), e.output.Form, e.times(c.OutOrStdout()), faults), errors.Join(faults...), known.outcome())
}

var errNoRules = errors.New("there are no rules here; name one with --rule, or the configuration with --config")

// askAggregators adds the counts of the key. It returns each error once, even when several rules meet it; unknown are
// the errors of aggregators that do not count the key.
func (e *explainCommand) askAggregators(c *cobra.Command, asked *aggregators, names []ruleKey, known *explanation) (faults, unknown []error) {
	told := map[string]bool{}
	for _, name := range names {
		counted, err := asked.find(c.Context(), name.rule, name.key)
		switch {
		case errors.Is(err, errNoKey) && e.rule == "":
		case err != nil && told[err.Error()]:
		case errors.Is(err, errElsewhere):
			unknown = append(unknown, err)
		case err != nil:
			faults = append(faults, err)
		case counted.Where != "none" || e.rule != "":
			known.Counted = append(known.Counted, counted)
		}

		if err != nil {
			told[err.Error()] = true
		}
	}

	return faults, unknown
}

// A ruleKey is a key to ask for under a rule.
type ruleKey struct{ rule, key string }

// rules returns the wanted rules that may count the key, with the key in the form of each.
func (e *explainCommand) rules(settings *config.Config, key string, wanted func(*rule.Rule) bool) []ruleKey {
	scope, value, err := blocklist.ParseTarget(key)
	ofField := err == nil && scope != "ip"
	if settings.RuleSet == nil {
		return nil
	}

	var names []ruleKey
	for _, r := range settings.RuleSet.Rules {
		// Aggregators do not count inline rules, enforcers do.
		if e.rule != "" && e.rule != r.Name || !wanted(r) {
			continue
		}
		if ofField && slices.Equal(r.Key.Words(), []string{scope}) {
			names = append(names, ruleKey{r.Name, value})
		} else if !ofField && countsBy(r, key) {
			names = append(names, ruleKey{r.Name, key})
		}
	}

	return names
}

func countsBy(r *rule.Rule, key string) bool {
	_, err := r.Key.Canonical(key)
	return err == nil
}

// askEnforcer adds the entries on the list, and the counts of inline rules.
func (e *explainCommand) askEnforcer(c *cobra.Command, key string, inline []ruleKey, known *explanation) error {
	enforcer, err := e.ask.enforcer.Connect()
	if err != nil {
		return err
	}
	defer enforcer.Close()
	for _, name := range inline {
		counted := &countedKey{}
		if _, err := enforcer.Ask(c.Context(), http.MethodGet, "/v1/keys", url.Values{"rule": {name.rule}, "key": {name.key}}, nil, counted); err != nil {
			return err
		}
		if counted.Where != "none" || e.rule != "" {
			known.Counted = append(known.Counted, counted)
		}
	}
	if err := enforcer.Find(c.Context(), key, e.rule, "", known); err != nil {
		return err
	}
	return known.findEvidence(c.Context(), enforcer)
}

// lately is how far back explain looks for attempts.
const lately = 15 * time.Minute

// findAttempts adds the last attempts of the key.
func (e *explainCommand) findAttempts(c *cobra.Command, settings *config.Config, key string, known *explanation) error {
	found := &tries{of: shown.NewMatch(key), rule: e.rule, most: someTries}
	if err := found.find(c.Context(), settings, c.ErrOrStderr(), catFrom{beforeNow, lately}); err != nil {
		return fmt.Errorf("looking for attempts: %w", err)
	}
	known.tries = found.all
	for i := range found.all {
		known.Attempts = append(known.Attempts, found.all[i].line)
	}
	return nil
}

// outcome returns an error when nothing is known of the key.
func (x *explanation) outcome() error {
	if len(x.Counted)+len(x.Entries)+len(x.Orders)+len(x.tries) == 0 && len(x.Faults) == 0 {
		return exit.Unmetf("nothing is counted for %s, and no entry on the list applies to it", x.Key)
	}
	return nil
}

func (e *explainCommand) times(w io.Writer) shown.Times {
	if e.local {
		return shown.LocalTimes(time.Now())
	}
	return shown.NewTimes(w, time.Now())
}

func (x *explanation) show(w io.Writer, form string, times shown.Times, faults []error) error {
	for _, fault := range faults {
		if fault != nil {
			x.Faults = append(x.Faults, fault.Error())
		}
	}

	if form == "json" {
		return output.JSON(w).Encode(x)
	}
	var b strings.Builder
	for _, entry := range x.Entries {
		fmt.Fprintf(&b, "On the list: %s by %s, %s (%s).\n", entry.Target(), entry.RuleName(), entry.UntilIn(times), entry.WhyIn(times))
		if text := entry.RefusedText(times); text != "" {
			fmt.Fprintf(&b, "    %s\n", text)
		}
	}

	for _, order := range x.Orders {
		if order.Order == blocklist.OrderPardon { // its end says how long it is kept, and no one is let through until then
			fmt.Fprintf(&b, "Let in by hand: %s at %s, %s.\n", order.Target(), times.At(order.From), order.WhyText())
			continue
		}
		fmt.Fprintf(&b, "Manual entry: %s %s, %s, %s.\n", shown.Kind(order.Order), order.Target(), order.UntilIn(times), order.WhyText())
	}
	if x.Next != "" {
		fmt.Fprintf(&b, "There are more entries: weir list %s shows all.\n", output.Printable(x.Key))
	}
	if x.Sending != nil {
		fmt.Fprintf(&b, "That enforcer refused the last request %s ago.\n", x.Sending.Age)
	}

	for _, proof := range x.Evidence {
		proof.Text(&b, times)
	}
	for _, counted := range x.Counted {
		counted.text(&b, x.Entries, times)
	}
	if len(x.tries) > 0 {
		b.WriteString(times.Zone("The last attempts") + ":\n")
	}
	for i := range x.tries {
		fmt.Fprintf(&b, "    %s\n", attemptText(&x.tries[i].Record, times))
	}
	return output.WriteText(w, b.String())
}

// text writes the counts for people, next to the entries on the list.
func (k *countedKey) text(b *strings.Builder, entries []*shown.Entry, times shown.Times) {
	where := "inline, at the enforcer"
	if k.Where == "store" {
		where = "inline, in the store of all enforcers"
	}
	if k.Partition != nil {
		where = fmt.Sprintf("partition %d, %s", *k.Partition, k.Where)
	}
	fmt.Fprintf(b, "%s  %s, as of %s (%s):\n", output.Printable(k.Rule), output.Printable(k.Key), times.Zone(times.At(k.At.Truncate(time.Second).UnixMilli())), where)
	var rows []string
	for _, l := range k.Limits {
		clears := "clear"
		if l.Clears != nil {
			clears = "clear at " + times.Until(l.Clears.UnixMilli()) + " if no more hits come"
		} else if at, ok := k.broken(l.Limit, entries); ok && l.Count == 0 {
			clears = "its window is empty now; the key broke this limit at " + times.At(int64(at))
		}
		count := output.Counted(int(l.Count), "hit")
		switch {
		case strings.HasSuffix(l.Limit, " at once"):
			count = fmt.Sprintf("%d running", l.Count)
		case blocklist.IsDifferent(l.Limit):
			if count = output.Counted(int(l.Count), "value"); l.Estimate {
				count = "about " + count
			}
		case blocklist.IsShare(l.Limit):
			count = fmt.Sprintf("%d of %s", l.Count, output.Counted(int(l.All), "request"))
		}
		rows = append(rows, fmt.Sprintf("    %s\t%s\t%s", l.Limit, count, clears))
	}

	output.Table(b, rows)
	if k.Block == nil {
		return
	}

	refusesNot := ""
	for _, e := range entries {
		if e.Rule == k.Rule && e.Key == k.Key {
			refusesNot = cmp.Or(refusesNot, e.RefusesNot())
		}
	}
	k.blockText(b, refusesNot, times)
}

// broken returns when the key broke a limit, for a block that has not ended. An aggregator that has no window of the key
// any more does not know it, but the list does.
func (k *countedKey) broken(limit string, entries []*shown.Entry) (backtest.Instant, bool) {
	if block := k.Block; block != nil {
		return backtest.Instant(block.From.UnixMilli()), block.Blocked && block.Ended == nil && block.Limit == limit
	}
	for _, e := range entries {
		if e.Rule == k.Rule && e.Key == k.Key && e.Limit == limit {
			return backtest.Instant(e.From), true
		}
	}
	return 0, false
}

// blockText describes the block; refusesNot is why it refuses no one, if so.
func (k *countedKey) blockText(b *strings.Builder, refusesNot string, times shown.Times) {
	until := "without an end"
	if k.Block.Until != nil {
		until = "until " + times.Until(k.Block.Until.UnixMilli())
	}

	broke := blocklist.Broke(k.Block.Count, "hits", k.Block.Limit)
	switch {
	case k.Block.Ended != nil:
		fmt.Fprintf(b, "    was blocked for breaking %s, and let in %s\n", k.Block.Limit, times.At(k.Block.Ended.Truncate(time.Second).UnixMilli()))
	case k.Block.Blocked && refusesNot != "":
		fmt.Fprintf(b, "    would be blocked %s: %s, offence %d (%s)\n", until, broke, k.Block.Level, refusesNot)
	case k.Block.Blocked:
		fmt.Fprintf(b, "    is blocked %s: %s, offence %d\n", until, broke, k.Block.Level)
	default:
		fmt.Fprintf(b, "    was blocked %s: %s, offence %d\n", until, broke, k.Block.Level)
	}
}
