package backtest

import (
	"cmp"
	"fmt"
	"html/template"
	"io"
	"slices"
)

// pageStrategies are the strategies of a rule side by side.
type pageStrategies struct {
	Rule, Given, Failed, Left string
	Queue                     string // instead of all others
	Chips, Limits             []string
	Rows                      []pageStrategy
	Curves                    *chart
	Keys                      []pageStrategyKey
}

type pageStrategy struct {
	Name, Admitted, Refused, Percent, Keys, Memory, Time string
	Own                                                  bool
	Most                                                 []string
	Share                                                template.CSS
}

type pageStrategyKey struct {
	Key, Attempts string
	Refused       []string
}

// WriteHTML writes a self-contained page: no scripts, styles or fonts from elsewhere.
func (c *Comparison) WriteHTML(w io.Writer, o HTMLOptions) error {
	p := &page{Title: cmp.Or(o.Title, c.Rule+" under several algorithms"), Version: o.Version, Command: o.Command, RulesText: o.Rules, Span: "no attempts", Strategies: c.page()}
	if c.Attempts > 0 {
		p.Span = fmt.Sprintf("%s to %s, %s", longTime(c.First), longTime(c.Last), durationText(int64(c.Last-c.First)))
	}
	own := &c.Strategies[0]
	if c.OfQueue() {
		p.Tiles = []pageTile{{Name: "Attempts", Value: grouped(c.Attempts + c.Failed)}}
		return p.write(w)
	}
	p.Tiles = []pageTile{
		{Name: "Attempts", Value: grouped(c.Attempts)},
		{Name: "Keys", Value: grouped(c.Keys)},
		{Name: "Admitted", Value: grouped(own.Admitted), Note: "by " + own.Algorithm + ", the rule's own"},
		{Name: "Refused", Value: grouped(own.Refused), Note: percentOf(own.Refused, c.Attempts) + " of the attempts", Loud: own.Refused > 0},
		{Name: "Keys refused", Value: grouped(own.KeysRefused), Note: percentOf(own.KeysRefused, c.Keys) + " of the keys"},
	}
	return p.write(w)
}

func (c *Comparison) page() *pageStrategies {
	p := &pageStrategies{Rule: c.Rule, Given: verdictsText(c.Given), Chips: append(slices.Clone(c.Limits), "by "+c.Key)}
	if c.OfQueue() {
		p.Queue = c.queueText()
		return p
	}
	if c.Failed > 0 {
		p.Failed = counted(c.Failed, "more attempt") + " came while the shared store failed, or met a full queue: no limit has decided them."
	}
	for _, most := range c.Strategies[0].Most {
		p.Limits = append(p.Limits, most.Limit)
	}
	var mostRefused int64
	for i := range c.Strategies {
		mostRefused = max(mostRefused, c.Strategies[i].Refused)
	}

	var curves []curve
	for i := range c.Strategies {
		s := &c.Strategies[i]
		row := pageStrategy{
			Name: s.Algorithm, Own: s.Own, Admitted: grouped(s.Admitted), Refused: grouped(s.Refused), Percent: percentOf(s.Refused, c.Attempts), Keys: grouped(s.KeysRefused),
			Memory: sizeText(s.StateBytes), Time: fmt.Sprintf("%.0f ns", s.TakeNanos), Share: share(s.Refused, mostRefused),
		}
		for _, most := range s.Most {
			row.Most = append(row.Most, grouped(most.Most))
		}
		p.Rows = append(p.Rows, row)
		curves = append(curves, curve{s.Algorithm, grouped(s.Refused) + " of " + counted(c.Attempts, "attempt") + " refused", s.plot})
	}
	p.Curves = newCurves(curves)

	rows, left := c.refusedRows(pageAlgorithms)
	for _, row := range rows {
		key := pageStrategyKey{Key: shortened(printable(row.key), 120), Attempts: grouped(row.attempts)}
		for _, n := range row.refused {
			key.Refused = append(key.Refused, grouped(n))
		}
		p.Keys = append(p.Keys, key)
	}
	if left > 0 {
		p.Left = counted(int64(left), "key") + " more"
	}
	return p
}
