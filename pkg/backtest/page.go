package backtest

import (
	"bufio"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/pkg/evidence"
)

// HTMLOptions are additional contents of the page.
type HTMLOptions struct {
	Title   string // "" is the names of the inputs
	Version string // of weir
	Command string // that made the page
	Rules   string // the text of the rules, shown collapsed; may be empty
}

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// Limits of the page's contents.
const (
	pageWorst      = 15  // keys of a rule
	pageMore       = 185 // more of them, shown collapsed
	pageCards      = 20
	pageAlgorithms = 40 // keys under each algorithm
	pageChanges    = 20 // keys of a rule, of each kind
)

// WriteHTML writes a self-contained page: no scripts, styles or fonts from elsewhere.
func (r *Report) WriteHTML(w io.Writer, o HTMLOptions) error { return r.page(o).write(w) }

func (p *page) write(w io.Writer) error {
	out := bufio.NewWriter(w)
	if err := pageTemplate.Execute(out, p); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	return out.Flush()
}

// A page is the data of the template.
type page struct {
	Title, Version, Command, RulesText string
	Span                               string
	Verdicts                           []pageVerdict
	Tiles                              []pageTile
	Requests                           *chart
	Rules                              []pageRule
	Cards                              []pageCard
	CardsNote                          string
	Algorithms                         *pageSides
	Strategies                         *pageStrategies
	Changes                            *pageDiff
	Unread                             []pageUnread
	Faults                             []string
	Inputs                             []pageInput
}

type pageVerdict struct {
	Bad  bool
	Text string
	More []string
}

type pageTile struct {
	Name, Value, Note string
	Loud              bool
}

type pageRule struct {
	Name, Counts, Uncounted string
	Chips                   []string
	Shadow, LeftOut         bool
	Worst, More             []pageKey
	MoreText, Left          string
}

type pageKey struct {
	Key, First, Limit, Peak, Times, Requests, Refused, Percent string
	Share, RefusedShare                                        template.CSS
}

type pageCard struct {
	Key, Text string
	Chart     *chart
	Requests  []evidence.Request
	Caption   string
}

type pageUnread struct{ Reason, Lines, Sample, Place string }

type pageInput struct{ Name, Format, Requests, Unread string }

func (r *Report) page(o HTMLOptions) *page {
	p := &page{
		Title: cmp.Or(o.Title, titleOf(r.Inputs)), Version: o.Version, Command: o.Command, RulesText: o.Rules, Span: "no requests",
		Verdicts: r.pageVerdicts(), Tiles: r.pageTiles(), Cards: r.pageCards(), Algorithms: r.pageSides(), Changes: r.Against.page(), Faults: r.Faults,
	}

	if r.From != nil {
		p.Span = fmt.Sprintf("%s to %s, %s", longTime(*r.From), longTime(*r.To), durationText(int64(*r.To-*r.From)))
	}
	if r.plot != nil && len(r.plot.bars) > 0 {
		p.Requests = requestsChart(r.plot)
	}

	if r.once && len(p.Cards) > 0 {
		p.CardsNote = "Standard input and pipes are read once, so the requests in them that counted are not shown."
	}
	for i := range r.Rules {
		p.Rules = append(p.Rules, r.Rules[i].page())
	}
	for _, s := range r.Samples {
		p.Unread = append(p.Unread, pageUnread{s.Reason, grouped(r.Unread[s.Reason]), s.Text, fmt.Sprintf("%s:%d", s.Input, s.Line)})
	}

	for _, in := range r.Inputs {
		p.Inputs = append(p.Inputs, pageInput{in.Input, in.Format, grouped(in.Requests), grouped(sum(in.Unread))})
	}
	return p
}

func titleOf(inputs []InputReport) string {
	names := make([]string, 0, 3)
	for _, in := range inputs[:min(3, len(inputs))] {
		names = append(names, in.Input[strings.LastIndexByte(in.Input, '/')+1:])
	}
	title := strings.Join(names, ", ")
	if more := len(inputs) - len(names); more > 0 {
		title += fmt.Sprintf(" and %s", counted(int64(more), "other log"))
	}
	return title
}

func longTime(i Instant) string {
	return time.UnixMilli(int64(i)).UTC().Format("2 January 2006 15:04:05")
}

func sum(counts map[string]int64) (sum int64) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

func (r *Report) pageVerdicts() (verdicts []pageVerdict) {
	if f := r.FailIf; f != nil {
		text := f.Condition + " does not hold: " + f.Found
		if f.Holds {
			text = f.Condition + " holds: " + f.Found
		}
		verdicts = append(verdicts, pageVerdict{Bad: f.Holds, Text: text})
	}

	if n := r.Never; n != nil {
		v := pageVerdict{Bad: len(n.Violations) > 0, Text: n.text()}
		for i, one := range n.Violations {
			if i == pageWorst {
				v.More = append(v.More, fmt.Sprintf("and %s more", grouped(int64(len(n.Violations)-i))))
				break
			}
			v.More = append(v.More, one.String())
		}
		verdicts = append(verdicts, v)
	}

	return verdicts
}

func (r *Report) pageTiles() []pageTile {
	var keys, blocked, shadowed, rules int64
	for i := range r.Rules {
		rule := &r.Rules[i]
		if !rule.Inline {
			rules++
		}
		// Shadow rules refuse nothing, so they are not in the figures that a reader would take for refusals.
		if rule.Mode == modeEnforce {
			keys += rule.Keys
			blocked += int64(len(rule.Blocked))
		} else {
			shadowed += int64(len(rule.Blocked))
		}
	}

	note := percentOf(blocked, keys) + " of the keys"
	if shadowed > 0 {
		note += fmt.Sprintf(", and %s in shadow", grouped(shadowed))
	}

	rate := ""
	if r.From != nil && *r.To > *r.From {
		rate = fmt.Sprintf("%s a minute on average", short(roughly(float64(r.Requests)*60_000/float64(*r.To-*r.From))))
	}

	unread := sum(r.Unread)
	return []pageTile{
		{Name: "Requests", Value: grouped(r.Requests), Note: rate},
		{Name: "Keys", Value: grouped(keys), Note: counted(rules, "rule")},
		{Name: "Keys blocked", Value: grouped(blocked), Note: note},
		{Name: "Requests refused", Value: grouped(r.Refused), Note: percentOf(r.Refused, r.Requests) + " of the requests", Loud: r.Refused > 0},
		{Name: "Lines unread", Value: grouped(unread), Note: percentOf(unread, unread+r.Requests) + " of the lines", Loud: unread > 0},
	}
}

// roughly is a number to two digits.
func roughly(x float64) float64 {
	two, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 2, 64), 64)
	return two
}

func requestsChart(s *series) *chart {
	c := newChart(s, func(b bar) string {
		return fmt.Sprintf("%s\n%s refused (%s)", counted(b.requests, "request"), grouped(b.refused), percentOf(b.refused, b.requests))
	})
	c.stacked(s, "", 200)
	// Small refusals would not be visible above the requests, so they get a chart of their own.
	if refused := most(s, func(b bar) int64 { return b.refused }); refused > 0 && refused <= most(s, func(b bar) int64 { return b.requests })/2 {
		c.refusedOnly(s, 70)
	}
	return c
}

func (r *RuleReport) page() pageRule {
	blocked := int64(len(r.Blocked))
	p := pageRule{
		Name: r.Rule, Shadow: r.Mode != modeEnforce, Chips: append(slices.Clone(r.Limits), "by "+r.Key, r.Algorithm), Uncounted: uncountedText(r.Uncounted),
		Counts: fmt.Sprintf("%s of %s. %s blocked (%s), %s refused (%s).", counted(r.Requests, "request"), counted(r.Keys, "key"),
			counted(blocked, "key"), percentOf(blocked, r.Keys), counted(r.Refused, "request"), percentOf(r.Refused, r.Requests)),
	}

	if r.Inline {
		p.Counts, p.LeftOut = leftOut(r.Rule)+".", true
		return p
	}

	worst := worstFirst(r.Blocked)

	// The bars of the table are relative to its longest one, not to keys that are folded away.
	var most int64
	for i := range worst[:min(len(worst), pageWorst)] {
		most = max(most, worst[i].Requests)
	}

	for i := range worst[:min(len(worst), pageWorst+pageMore)] {
		if key := worst[i].page(most); i < pageWorst {
			p.Worst = append(p.Worst, key)
		} else {
			p.More = append(p.More, key)
		}
	}

	p.MoreText = fmt.Sprintf("%s more", counted(int64(len(p.More)), "key"))
	if left := len(worst) - len(p.Worst) - len(p.More); left > 0 {
		p.Left = fmt.Sprintf("%s more; weir backtest --json lists them all", counted(int64(left), "key"))
	}
	return p
}

func (b *Blocked) page(most int64) pageKey {
	return pageKey{
		Key: shortened(b.Key, 120), First: shortTime(b.First), Limit: b.Limit, Peak: grouped(b.Peak), Times: b.times(),
		Requests: grouped(b.Requests), Refused: grouped(b.Refused), Percent: percentOf(b.Refused, b.Requests),
		Share: share(min(b.Requests, most), most), RefusedShare: share(b.Refused, b.Requests),
	}
}

// times describes how far the peak is beyond the limit: how many times it is, or below twice the limit by how much.
func (b *Blocked) times() string {
	switch {
	case b.allowed == 0:
		return ""
	case b.Peak < 2*b.allowed:
		return fmt.Sprintf("+%d%%", max(1, 100*(b.Peak-b.allowed)/b.allowed))
	}
	return short(roughly(float64(b.Peak)/float64(b.allowed))) + "×"
}

func share(part, base int64) template.CSS {
	if base == 0 {
		return "0"
	}
	return template.CSS(percent(float64(part) / float64(base)))
}

func shortTime(i Instant) string { return time.UnixMilli(int64(i)).UTC().Format("2 Jan 2006 15:04:05") }

// pageCards are the worst keys.
func (r *Report) pageCards() []pageCard {
	var cards []pageCard
	for _, rk := range r.worst() {
		cards = append(cards, rk.key.card(rk.rule))
	}
	return cards
}

func (b *Blocked) card(r *RuleReport) pageCard {
	s := b.timeline
	c := newChart(s, func(at bar) string {
		return fmt.Sprintf("%s, %s refused\nat most %s of %s", counted(at.requests, "request"), grouped(at.refused), grouped(at.peak), b.Limit)
	})
	c.stacked(s, "", 84)
	c.againstLimit(s, b.allowed, b.per, fmt.Sprintf("against %s; each bar is %s", b.Limit, c.Each), 64)
	text := fmt.Sprintf("%s: blocked %s, first on %s by %s; %s of %s refused", r.Rule, timesText(b.Blocks), shortTime(b.First), b.Limit,
		grouped(b.Refused), counted(b.Requests, "request"))
	card := pageCard{Key: shortened(b.Key, 120), Text: text, Chart: c, Requests: b.evidence}
	if n := int64(len(b.evidence)); n > 0 {
		card.Caption = fmt.Sprintf("The last %s that counted before the first block, newest first", counted(n, "request"))
	}
	return card
}

func timesText(n int64) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return grouped(n) + " times"
}
