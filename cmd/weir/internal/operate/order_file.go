package operate

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/ask"
	"weir/cmd/weir/internal/output"
	"weir/cmd/weir/internal/shown"
	"weir/internal/regular"
	"weir/pkg/blocklist"
)

// Bounds of a file of targets.
const (
	maxFileTargets = 10_000
	maxFileBytes   = 512 << 10
	pageTargets    = 500 // in a request
)

// A fileCommand contains the flags of a command that reads its targets from a file.
type fileCommand struct {
	*orderCommand
	path string
	end  bool
}

// add adds the flags.
func (f *fileCommand) add(c *cobra.Command, of string) {
	c.Flags().StringVar(&f.path, "file", "", "read the targets from `FILE`, one a line; # begins a comment")
	c.Flags().BoolVar(&f.end, "end", false, "take the "+of+" back")
}

// oneTargetOrFile requires one target, or none with --file.
func (f *fileCommand) oneTargetOrFile(c *cobra.Command, args []string) error {
	if f.path == "" {
		return oneTarget(c, args)
	}
	if len(args) > 0 {
		return exit.Wrongf("there is a target and a --file; leave one of them out")
	}
	return nil
}

// A listOrder is a request about a list of targets.
type listOrder struct {
	newOrder
	Targets []string `json:"targets"`
	End     bool     `json:"end,omitempty"`
	Preview bool     `json:"preview,omitempty"`
}

// A listAnswer is an enforcer's answer to it, or the sum of several.
type listAnswer struct {
	Targets   int      `json:"targets"`
	Ordered   int      `json:"ordered"`
	Unchanged int      `json:"unchanged"`
	Entries   int      `json:"entries"`
	Refused   int64    `json:"refused"`
	Keys      []string `json:"keys"`
	Affects   []string `json:"affects"`
	InForce   *struct {
		Here      bool `json:"here"`
		Kafka     bool `json:"kafka"`
		Followers int  `json:"followers"`
	} `json:"in_force"`
	Note string `json:"note,omitempty"`
}

// run orders all targets of the file, after a preview that the person confirms.
func (f *fileCommand) run(c *cobra.Command, path string, order newOrder) error {
	targets, err := readTargets(f.path)
	if err != nil {
		return err
	}
	enforcer, err := f.enforcer.Connect()
	if err != nil {
		return err
	}
	defer enforcer.Close()

	list := listOrder{newOrder: order, Targets: targets, End: f.end, Preview: true}
	var preview listAnswer
	if _, err := enforcer.Ask(c.Context(), http.MethodPost, path, nil, list, &preview); err != nil {
		return olderThanLists(err)
	}
	if own := sessionOf(os.Getenv("SSH_CONNECTION")); path == blocksPath && !f.end && slices.ContainsFunc(targets, func(one string) bool { return contains(one, own) }) {
		preview.Affects = append(preview.Affects, fmt.Sprintf("the address that you are logged in from, %s", own))
	}
	if preview.Ordered > 0 {
		if err := f.confirm(c, preview.sentences(f, path == blocksPath)); err != nil {
			return err
		}
	}

	sum := listAnswer{Entries: preview.Entries, Refused: preview.Refused, Keys: preview.Keys, Affects: preview.Affects}
	list.Preview, list.Confirm = false, true
	for page := range slices.Chunk(targets, pageTargets) {
		list.Targets = page
		var one listAnswer
		if _, err := enforcer.Ask(c.Context(), http.MethodPost, path, nil, list, &one); err != nil {
			return fmt.Errorf("%d of %d targets are done; the same command does the rest: %w", sum.Targets, len(targets), err)
		}
		sum.add(&one)
		if output.IsTerminal(c.ErrOrStderr()) && len(targets) > pageTargets {
			fmt.Fprintf(c.ErrOrStderr(), "weir: %d of %d targets\n", sum.Targets, len(targets))
		}
	}
	return f.show(c, &sum, enforcer.At(), path == blocksPath, &order)
}

// olderThanLists explains the answer of an enforcer that knows no lists.
func olderThanLists(err error) error {
	if refused, ok := errors.AsType[*ask.RefusedError](err); ok && strings.Contains(refused.Error(), `unknown field "targets"`) {
		return fmt.Errorf("this enforcer is of an earlier version, which accepts no list of targets: %w", err)
	}
	return err
}

// add adds the answer about a page.
func (a *listAnswer) add(page *listAnswer) {
	a.Targets += page.Targets
	a.Ordered += page.Ordered
	a.Unchanged += page.Unchanged
	if page.InForce != nil {
		a.InForce = page.InForce
	}
	if a.Note == "" {
		a.Note = page.Note
	}
}

// sentences describe what the command is going to do.
func (a *listAnswer) sentences(f *fileCommand, block bool) []string {
	what := output.Counted(a.Ordered, "target") + " of " + f.path
	switch {
	case f.end && block:
		what += ", whose block ends"
	case f.end:
		what += ", whose allow ends"
	case block:
		what += ", to be blocked"
	default:
		what += ", to be let through"
	}
	all := []string{what}
	if a.Entries > 0 {
		text := output.Counted(a.Entries, "entry") + " on the list within them"
		if a.Refused > 0 {
			text += ", which refused " + output.Counted(int(a.Refused), "request")
		}
		text += ": " + strings.Join(a.Keys, ", ")
		if a.Entries > len(a.Keys) {
			text += ", …"
		}
		all = append(all, text)
	}
	if a.Note != "" {
		all = append(all, "note: "+a.Note)
	}
	return append(all, a.Affects...)
}

// show reports what was done.
func (f *fileCommand) show(c *cobra.Command, a *listAnswer, at string, block bool, order *newOrder) error {
	if f.output.Form == "json" {
		return output.JSON(c.OutOrStdout()).Encode(a)
	}
	did, until := "let through", ""
	switch {
	case f.end && block:
		did = "no longer blocked by hand"
	case f.end:
		did = "no longer allowed"
	case block:
		did = "blocked"
	}
	switch {
	case f.end:
	case order.Until != "":
		until = " until " + order.Until
	case order.For != "" && order.For != "forever":
		until = " for " + order.For
	default:
		until = " until someone ends it"
	}

	text := fmt.Sprintf("%s: %s now %s%s", output.Printable(f.path), output.Counted(a.Ordered, "target"), did, until)
	if a.Unchanged > 0 {
		text += fmt.Sprintf("; nothing to do for %d", a.Unchanged)
	}
	text += ".\n"
	switch {
	case a.Ordered > 0:
	case f.end:
		text = fmt.Sprintf("%s: nothing to do, no target has such an entry.\n", output.Printable(f.path))
	default:
		text = fmt.Sprintf("%s: nothing to do, each target has this entry already.\n", output.Printable(f.path))
	}
	if a.InForce != nil {
		answer := orderAnswer{InForce: *a.InForce, Affects: a.Affects, Note: a.Note, times: shown.NewTimes(c.OutOrStdout(), time.Now())}
		text += answer.where(at)
	}
	_, err := fmt.Fprint(c.OutOrStdout(), text)
	return err
}

// readTargets reads a file of targets. All errors are reported at once, up to some.
func readTargets(path string) ([]string, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > maxFileBytes {
		return nil, exit.Wrongf("%s has %d bytes; a file of targets has at most %d", path, info.Size(), maxFileBytes)
	}
	data, err := regular.ReadFile(path)
	if err != nil {
		return nil, exit.Wrongf("reading --file: %w", err)
	}

	var targets []string
	var faults []error
	seen := map[string]bool{}
	for number, line := range strings.Split(strings.TrimPrefix(string(data), "\ufeff"), "\n") {
		target := strings.TrimSpace(withoutComment(line))
		if target == "" {
			continue
		}
		scope, value, err := blocklist.ParseTarget(target)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s:%d: %w", path, number+1, err))
			if len(faults) == 10 {
				break
			}
			continue
		}
		if name := scope + ":" + value; !seen[name] {
			seen[name] = true
			targets = append(targets, target)
		}
	}
	switch {
	case len(faults) > 0:
		return nil, exit.Wrong(errors.Join(faults...))
	case len(targets) == 0:
		return nil, exit.Wrongf("%s has no targets: write an address, a prefix, or a field with its value on each line", path)
	case len(targets) > maxFileTargets:
		return nil, exit.Wrongf("%s has %d targets; at most %d are possible. Networks that are always let through can be in the rules: allow: [{ip: {file: %s}}]", path, len(targets), maxFileTargets, path)
	}
	return targets, nil
}

// withoutComment cuts a line at a # that begins it or follows a space: a # within a value belongs to it.
func withoutComment(line string) string {
	before := ' '
	for i, c := range line {
		if c == '#' && unicode.IsSpace(before) {
			return line[:i]
		}
		before = c
	}
	return line
}
