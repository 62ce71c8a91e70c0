package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/ask"
	"weir/cmd/weir/internal/command"
	"weir/cmd/weir/internal/output"
	"weir/cmd/weir/internal/shown"
)

// TopOfLogs is `weir top` about logs, which asks no running system. Its flags decide.
type TopOfLogs interface {
	Add(c *cobra.Command)
	Wanted(c *cobra.Command, logs []string) (bool, error)
	Run(c *cobra.Command, logs []string, number int, form string) error
}

// A topCommand contains the flags of `weir top`.
type topCommand struct {
	ask    aggregatorFlags
	logs   TopOfLogs
	rule   string
	number int
	plain  bool
	output command.Output
}

func newTop(logs TopOfLogs) *cobra.Command {
	t := &topCommand{logs: logs}
	c := &cobra.Command{
		Use:   "top [flags] [--by FIELD FILE...|-|kafka://...|source:NAME]",
		Short: "Show the keys nearest to a limit, or beyond it",
		Long: `Top asks the aggregators for the keys that use most of a limit now, an enforcer for those of inline rules, and which of
them are on the list. First come the keys on the list that go on sending: those that the enforcer refused in the last
minute. Other keys without recent hits are missing, because aggregators no longer have them in memory.

In a terminal they are refreshed every two seconds until you press q. Enter shows what weir explain knows of a key.

With --by, top reads logs instead, as weir backtest does, and shows the values of a field that most requests have.`,
		Example: `  weir top
  weir top --rule per-ip -n 50 --json
  weir top --aggregator http://a1:7411 --aggregator http://a2:7411
  weir top --by path access.log access.log.*.gz
  weir top --by ip/24+48 -n 50 --json 'kafka://localhost:9092/logs?from=6h'`,
		Args: cobra.ArbitraryArgs,
		RunE: t.run,
	}

	t.ask.add(c)
	c.Flags().StringVar(&t.rule, "rule", "", "show the keys of one `RULE`")
	c.Flags().IntVarP(&t.number, "number", "n", 20, "show at most `N` keys, up to 1000")
	c.Flags().BoolVar(&t.plain, "plain", false, "write lines once, in a terminal too")
	t.logs.Add(c)
	t.output.Add(c, "text", "json", "plain")
	return c
}

// A topKey is a key with its share of a limit, one line of `weir top --json`.
type topKey struct {
	Rule    string  `json:"rule"`
	Key     string  `json:"key"`
	Limit   string  `json:"limit"`
	Count   int64   `json:"count"`
	Share   float64 `json:"share"`   // of the limit
	Blocked *bool   `json:"blocked"` // null when no enforcer could be asked

	// Requests that the asked enforcer has refused because of the key's entry, and how many of them in the last minute.
	Refused    int64 `json:"refused,omitempty"`
	LastMinute int64 `json:"refused_last_minute,omitempty"`

	entry *shown.Entry // on the list; nil for none
}

func (t *topCommand) run(c *cobra.Command, logs []string) error {
	if t.number < 1 || t.number > 1000 {
		return exit.Wrongf("-n %d is not possible; write a number of keys from 1 to 1000", t.number)
	}
	if ofLogs, err := t.logs.Wanted(c, logs); err != nil {
		return err
	} else if ofLogs {
		return t.logs.Run(c, logs, t.number, t.output.Form)
	}

	settings, err := t.ask.enforcer.Live.LoadButRules()
	if err != nil {
		return err
	}

	asked, err := t.ask.open(settings)
	if err != nil {
		return err
	}

	if t.output.Form == "text" && !t.plain && browses(c) {
		return t.view(c, asked)
	}
	keys, err := t.heaviest(c, asked, t.number)
	if len(keys) == 0 && err != nil {
		return err
	}
	err = errors.Join(err, t.askEnforcer(c, keys))
	return errors.Join(showTop(c.OutOrStdout(), t.output.Form, keys), err)
}

// heaviest returns the keys that use most of a limit. Keys may come with an error: the parts that answer are enough for a
// list.
func (t *topCommand) heaviest(c *cobra.Command, asked *aggregators, number int) (keys []*topKey, err error) {
	query := url.Values{"n": {strconv.Itoa(number)}, "rule": {t.rule}}
	var faults []error
	for _, at := range asked.urls {
		var some []*topKey
		faults = append(faults, asked.ask(c.Context(), at, "/v1/top", query, &some))
		keys = append(keys, some...)
	}

	inline, err := t.askInline(c, query)
	faults = append(faults, err)
	keys, err = t.addRefused(c, append(keys, inline...), number)
	slices.SortStableFunc(keys, bySending)
	return keys[:min(len(keys), number)], errors.Join(append(faults, err)...)
}

// byShare puts the keys first that use most of a limit.
func byShare(a, b *topKey) int { return cmp.Compare(b.Share, a.Share) }

// bySending puts the keys first that are refused most now, and then those that use most of a limit.
func bySending(a, b *topKey) int {
	return cmp.Or(cmp.Compare(b.LastMinute, a.LastMinute), byShare(a, b))
}

// addRefused adds the keys that an enforcer refused in the last minute: their requests are no hits.
func (t *topCommand) addRefused(c *cobra.Command, keys []*topKey, number int) ([]*topKey, error) {
	enforcer, err := t.ask.enforcer.Connect()
	if err != nil {
		return keys, err
	}
	defer enforcer.Close()
	var numbers struct {
		Entries []struct {
			Rule, Key, Limit string
			Refused          int64
			LastMinute       int64 `json:"last_minute"`
		}
	}
	if err := enforcer.Refusing(c.Context(), t.rule, number, &numbers); err != nil {
		return keys, err
	}

	known := make(map[ruleKey]*topKey, len(keys))
	for _, key := range keys {
		known[ruleKey{key.Rule, key.Key}] = key
	}
	for _, one := range numbers.Entries {
		if one.LastMinute == 0 {
			continue
		}
		key := known[ruleKey{one.Rule, one.Key}]
		if key == nil {
			key = &topKey{Rule: one.Rule, Key: one.Key, Limit: one.Limit}
			keys = append(keys, key)
		}
		key.Refused, key.LastMinute = one.Refused, one.LastMinute
	}
	return keys, nil
}

// askInline returns the keys of inline rules, which an enforcer counts.
func (t *topCommand) askInline(c *cobra.Command, query url.Values) (keys []*topKey, err error) {
	enforcer, err := t.ask.enforcer.Connect()
	if err != nil {
		return nil, err
	}
	defer enforcer.Close()
	partial, err := enforcer.AskForAll(c.Context(), "/v1/top", query, &keys)
	if partial {
		fmt.Fprintln(c.ErrOrStderr(), "weir: the store of inline rules has more keys than could be looked at, so heavier ones may be missing; "+
			"name a rule with --rule, or ask about one key with weir explain")
	}
	no := (*ask.RefusedError)(nil)
	if errors.As(err, &no) && no.Status != http.StatusServiceUnavailable {
		if no.Status == http.StatusNotImplemented { // as earlier versions answer about a shared store
			fmt.Fprintln(c.ErrOrStderr(), "weir:", no)
		}
		return nil, nil // one of an earlier version; if it is for the lack of a key, the next question reports that
	}
	return keys, err
}

// askEnforcer notes which keys are on the list by their rules.
func (t *topCommand) askEnforcer(c *cobra.Command, keys []*topKey) error {
	enforcer, err := t.ask.enforcer.Connect()
	if err != nil {
		return err
	}
	defer enforcer.Close()
	for _, key := range keys {
		var found struct{ Entries []*shown.Entry }
		if err := enforcer.Find(c.Context(), key.Key, key.Rule, "", &found); err != nil {
			return err
		}
		at := slices.IndexFunc(found.Entries, func(e *shown.Entry) bool { return e.Key == key.Key })
		key.Blocked = new(at >= 0)
		if at >= 0 {
			key.entry = found.Entries[at]
		}
	}

	return nil
}

// cells are the columns of a key's row, so many.
func (k *topKey) cells(columns int) []string {
	listed := "?"
	if k.Blocked != nil {
		listed = map[bool]string{true: "yes", false: "-"}[*k.Blocked]
	}
	limit, refused := k.Limit, "-"
	if limit == "" { // of a block by hand
		limit = "-"
	}
	if k.LastMinute > 0 {
		refused = strconv.FormatInt(k.LastMinute, 10)
	}
	return []string{output.Printable(k.Rule), output.Printable(k.Key), strconv.FormatInt(k.Count, 10), output.Printable(limit), fmt.Sprintf("%.0f%%", 100*k.Share), listed, refused}[:columns]
}

// topTitle returns the titles of the columns. Without refused requests there is no column for them.
func topTitle(keys []*topKey) []string {
	title := []string{"RULE", "KEY", "HITS", "LIMIT", "USED", "LISTED", "REFUSED/MIN"}
	if slices.ContainsFunc(keys, func(k *topKey) bool { return k.LastMinute > 0 }) {
		return title
	}
	return title[:len(title)-1]
}

func showTop(w io.Writer, form string, keys []*topKey) error {
	var b strings.Builder
	title := topTitle(keys)
	rows := []string{strings.Join(title, "\t")}
	for _, key := range keys {
		switch form {
		case "json":
			if err := output.JSON(&b).Encode(key); err != nil {
				return err
			}
		case "plain":
			b.WriteString(output.Printable(key.Key) + "\n")
		default:
			rows = append(rows, strings.Join(key.cells(len(title)), "\t"))
		}
	}

	switch {
	case form == "text" && len(keys) == 0:
		b.WriteString("No key uses any of a limit now.\n")
	case form == "text":
		output.Table(&b, rows)
	}

	_, err := io.WriteString(w, b.String())
	return err
}
