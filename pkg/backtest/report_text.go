package backtest

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"weir/pkg/rule"
)

// TextOptions are the options of WriteText.
type TextOptions struct {
	Top   int  // how many keys of each rule are listed, the most refused first; 0 is 10, below 0 all
	Color bool // for a terminal
	Width int  // of the terminal in columns, to which long keys are shortened; 0 is 120
}

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer, o TextOptions) error {
	t := &textWriter{Writer: bufio.NewWriter(w), options: o, keyWidth: max(24, cmp.Or(o.Width, 120)-60)}
	t.head(r)
	for i := range r.Rules {
		t.rule(&r.Rules[i])
	}
	t.algorithms(r)
	t.against(r.Against)

	if f := r.FailIf; f != nil {
		result := "does not hold"
		if f.Holds {
			result = "holds"
		}
		t.line("\n%s %s: %s", t.strong(f.Condition), t.strong(result), f.Found)
	}

	if n := r.Never; n != nil {
		t.line("\n%s", t.strong(n.text()))
		for _, v := range n.Violations {
			t.line("  %s", v)
		}
	}

	return t.Flush()
}

// WriteKeys writes the blocked keys, each once, a key a line, those of the first rule first.
func (r *Report) WriteKeys(w io.Writer) error {
	out := bufio.NewWriter(w)
	seen := map[string]bool{}
	for i := range r.Rules {
		for _, b := range r.Rules[i].Blocked {
			if !seen[b.Key] {
				seen[b.Key] = true
				fmt.Fprintln(out, b.Key)
			}
		}
	}
	return out.Flush()
}

type textWriter struct {
	*bufio.Writer
	options  TextOptions
	keyWidth int
}

func (t *textWriter) line(format string, args ...any) { fmt.Fprintf(t, format+"\n", args...) }

// strong highlights text on a terminal.
func (t *textWriter) strong(text string) string {
	if !t.options.Color {
		return text
	}
	return "\x1b[1m" + text + "\x1b[0m"
}

func (t *textWriter) faint(text string) string {
	if !t.options.Color {
		return text
	}
	return "\x1b[2m" + text + "\x1b[0m"
}

func (t *textWriter) head(r *Report) {
	t.read(r)
	if len(r.crawlers) > 0 {
		t.line("crawlers in allow (%s) count like other clients here: only an enforcer asks DNS about them", crawlerNames(r.crawlers))
	}
	t.line("%s would be refused (%s)", counted(r.Refused, "request"), percentOf(r.Refused, r.Requests))
}

func crawlerNames(crawlers []rule.Crawler) string {
	names := make([]string, len(crawlers))
	for i, crawler := range crawlers {
		names[i] = crawler.Name
	}
	return strings.Join(names, ", ")
}

// read lists what was read.
func (t *textWriter) read(r *Report) {
	t.line("%s", t.strong(counted(r.Requests, "request")+" read")+spanOf(r))
	if r.Filtered > 0 {
		t.line("%s left out, as only in weir.yaml says", counted(r.Filtered, "request"))
	}
	var unread int64
	for _, n := range r.Unread {
		unread += n
	}
	if unread > 0 {
		t.line("%s", t.strong(counted(unread, "line")+" could not be read: "+byReason(r.Unread)))
		for _, s := range r.Samples {
			t.line("  %s:%d (%s): %s", s.Input, s.Line, s.Reason, t.faint(s.Text))
		}
	}
	if r.Seen > 0 {
		t.line("%s not counted, as seen before", counted(r.Seen, "request"))
	}
	// One is enough: the inputs are mostly parts of one log.
	if i := slices.IndexFunc(r.Inputs, func(in InputReport) bool { return in.Doubt != "" }); i >= 0 {
		t.line("%s: %s", r.Inputs[i].Input, r.Inputs[i].Doubt)
	}
}

// spanOf is the time from the first to the last request.
func spanOf(r *Report) string {
	if r.From == nil || r.To == nil {
		return ""
	}
	return fmt.Sprintf(", %s to %s (%s)", r.From, r.To, durationText(int64(*r.To-*r.From)))
}

// byReason lists counts, the greatest first.
func byReason(counts map[string]int64) string {
	reasons := sortedReasons(counts)
	for i, reason := range reasons {
		reasons[i] = grouped(counts[reason]) + " " + reason
	}
	return strings.Join(reasons, ", ")
}

// uncountedWords are the reasons why requests did not count, in words.
var uncountedWords = map[string]string{
	rule.NoMatch.String(): "that match leaves out", rule.Allowed.String(): "allowed", rule.NoKey.String(): "without a key",
	rule.Refused.String(): "refused before", rule.NoCost.String(): "without cost", rule.Failed.String(): "for which the expression failed",
	reasonLate: "too late",
}

// uncountedText lists requests that did not count.
func uncountedText(counts map[string]int64) string {
	reasons := sortedReasons(counts)
	for i, reason := range reasons {
		reasons[i] = grouped(counts[reason]) + " " + uncountedWords[reason]
	}
	return strings.Join(reasons, ", ")
}

func sortedReasons(counts map[string]int64) []string {
	reasons := make([]string, 0, len(counts))
	for reason := range counts {
		reasons = append(reasons, reason)
	}
	slices.SortFunc(reasons, func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	return reasons
}

func (t *textWriter) rule(r *RuleReport) {
	if r.Inline {
		t.line("\n%s", leftOut(r.Rule))
		return
	}
	t.line("\n%s  %s", t.strong(r.Rule), t.faint(aboutRule(r)))
	t.line("  %s of %s; %s blocked (%s), %s refused (%s)", counted(r.Requests, "request"), counted(r.Keys, "key"),
		counted(int64(len(r.Blocked)), "key"), percentOf(int64(len(r.Blocked)), r.Keys),
		counted(r.Refused, "request"), percentOf(r.Refused, r.Requests))
	if len(r.Uncounted) > 0 {
		t.line("  not counted: %s", uncountedText(r.Uncounted))
	}

	t.blocked(r.Blocked)
}

// blocked lists the worst keys.
func (t *textWriter) blocked(blocked []Blocked) {
	worst, left := t.worst(blocked)
	if len(worst) == 0 {
		return
	}
	table := textTable{{"key", "first blocked", "limit", "peak", "requests", "refused", ""}}
	for _, b := range worst {
		table = append(table, []string{t.shortened(b.Key), b.First.String(), b.Limit, grouped(b.Peak), grouped(b.Requests),
			grouped(b.Refused), percentOf(b.Refused, b.Requests)})
	}
	t.table(table, 3)
	t.left(left)
	for _, b := range worst {
		if b.Group != nil {
			t.line("  %s: %s", t.shortened(b.Key), b.Group.text())
		}
	}
}

// text is the addresses of a network in a sentence.
func (g *GroupReport) text() string {
	text := fmt.Sprintf("%d blocked addresses: %s", g.Count, strings.Join(g.Members, ", "))
	if more := g.Count - len(g.Members); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if g.Share > 0 {
		text += fmt.Sprintf("; the network sent %.1f%% of an hour's requests", g.Share)
	}
	if g.Guarded > 0 {
		text += fmt.Sprintf(", more than most_share: %s guarded", counted(g.Guarded, "block"))
	}
	if g.Addresses == 0 {
		return text
	}
	were := "were never blocked themselves"
	if g.Innocent == 1 {
		were = "was never blocked itself"
	}
	return text + fmt.Sprintf("; of %s addresses that it refused, %s %s (%s)", grouped(int64(g.Addresses)), grouped(int64(g.Innocent)), were,
		percentOf(int64(g.Innocent), int64(g.Addresses)))
}

// aboutRule describes a rule in a line.
func aboutRule(r *RuleReport) string {
	about := rule.JoinTexts(r.Limits) + " by " + r.Key
	if r.Algorithm != "sliding" {
		about += ", " + r.Algorithm
	}
	if r.Mode != modeEnforce {
		about += ", " + r.Mode
	}
	return about
}

func (t *textWriter) left(left int) {
	if left > 0 {
		t.line("  %s", t.faint(fmt.Sprintf("and %s more", grouped(int64(left)))))
	}
}

// worst are the keys to list, those refused most first, and the number of the others.
func (t *textWriter) worst(blocked []Blocked) (worst []Blocked, left int) {
	top := t.options.Top
	top = cmp.Or(top, 10)
	worst = worstFirst(blocked)
	if top > 0 && len(worst) > top {
		return worst[:top], len(worst) - top
	}
	return worst, 0
}

// worstFirst sorts by requests refused, then as reports do.
func worstFirst(blocked []Blocked) []Blocked {
	worst := slices.Clone(blocked)
	slices.SortStableFunc(worst, func(a, b Blocked) int { return cmp.Compare(b.Refused, a.Refused) })
	return worst
}

func (t *textWriter) algorithms(r *Report) {
	if len(r.Algorithms) == 0 {
		return
	}
	t.line("\n%s", t.strong("the same rules under each algorithm"))
	table := textTable{{"algorithm", "keys blocked", "refused", "", "memory", "ns/hit"}}
	for _, a := range r.Algorithms {
		table = append(table, []string{a.Algorithm, grouped(a.Blocked), grouped(a.Refused), percentOf(a.Refused, r.Requests),
			sizeText(a.StateBytes), fmt.Sprintf("%.0f", a.HitNanos)})
	}

	t.table(table, 1)
	rows := compareAlgorithms(r.Algorithms)
	// The rest is counted below the table, so the line is written at the end.
	if top := max(t.options.Top, 10); t.options.Top >= 0 && len(rows) > top {
		defer t.left(len(rows) - top)
		rows = rows[:top]
	}

	if len(rows) == 0 {
		return
	}
	t.line("")
	head := []string{"first blocked, and refused"}
	for _, a := range r.Algorithms {
		head = append(head, a.Algorithm)
	}

	table = textTable{head}
	for _, row := range rows {
		line := []string{t.shortened(row.key)}
		for _, b := range row.blocked {
			line = append(line, firstAndRefused(b))
		}
		table = append(table, line)
	}

	t.table(table, len(head))
}

func firstAndRefused(b *Blocked) string {
	if b == nil {
		return "-"
	}
	return time.UnixMilli(int64(b.First)).UTC().Format("01-02 15:04:05") + " " + grouped(b.Refused)
}

func (t *textWriter) against(a *AgainstReport) {
	if a == nil {
		return
	}
	t.line("\n%s  %s", t.strong("what changes"), t.faint("before: "+counted(a.Refused, "request")+" refused"))
	for i := range a.Rules {
		if a.Rules[i].Inline {
			t.line("  before: %s", leftOut(a.Rules[i].Rule))
		}
	}
	for i := range a.Changes {
		t.change(&a.Changes[i])
	}
}

func (t *textWriter) change(c *RuleChange) {
	t.line("  %s: %s", c.name(), c.counts())
	var table textTable
	add := func(sign string, blocked []Blocked) {
		worst, left := t.worst(blocked)
		for _, b := range worst {
			table = append(table, []string{sign + " " + t.shortened(b.Key), b.First.String(), b.Limit, counted(b.Refused, "request") + " refused"})
		}
		if left > 0 {
			table = append(table, []string{fmt.Sprintf("%s and %s more", sign, grouped(int64(left)))})
		}
	}

	add("-", c.OnlyBefore)
	add("+", c.OnlyAfter)

	// The changed ones are sorted by how much they changed, and not by the worst.
	changed, left := c.Changed, 0
	if top := max(t.options.Top, 10); t.options.Top >= 0 && len(changed) > top {
		changed, left = changed[:top], len(changed)-top
	}

	for _, k := range changed {
		table = append(table, []string{"~ " + t.shortened(k.Key), changeText(k.Before.First.String(), k.After.First.String()),
			changeText(k.Before.Limit, k.After.Limit), changeText(grouped(k.Before.Refused), grouped(k.After.Refused)) + " refused"})
	}

	if left > 0 {
		table = append(table, []string{fmt.Sprintf("~ and %s more", grouped(int64(left)))})
	}
	t.table(table, 9)
}

func changeText(before, after string) string {
	if before == after {
		return after
	}
	return before + " → " + after
}

// A textTable is rows of cells; the first row is the head, in capitals.
type textTable [][]string

// table writes a table; its columns from the given one on are aligned to the right.
func (t *textWriter) table(table textTable, right int) {
	var widths []int
	for _, row := range table {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}

	for n, row := range table {
		var b strings.Builder
		for i, cell := range row {
			// Widths are in characters: keys may have others than ASCII.
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i >= right {
				cell, pad = pad+cell, ""
			}
			b.WriteString("  " + cell + pad)
		}

		text := strings.TrimRight(b.String(), " ")
		if n == 0 && right < 9 {
			text = t.faint(text)
		}

		t.line("  %s", text)
	}
}

// shortened is a key that fits its column.
func (t *textWriter) shortened(key string) string { return shortened(key, t.keyWidth) }

func shortened(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

// durationText is a length of time for people, in its two largest units.
func durationText(millis int64) string {
	units := []struct {
		millis int64
		name   string
	}{{86_400_000, "day"}, {3_600_000, "hour"}, {60_000, "minute"}, {1000, "second"}}

	for i, u := range units {
		if millis < u.millis {
			continue
		}
		text := counted(millis/u.millis, u.name)
		if i+1 < len(units) {
			if rest := millis % u.millis / units[i+1].millis; rest > 0 {
				text += " " + counted(rest, units[i+1].name)
			}
		}
		return text
	}

	return fmt.Sprintf("%d ms", millis)
}
