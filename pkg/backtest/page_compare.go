package backtest

import (
	"fmt"
	"html/template"
	"time"
)

// pageSides are the algorithms side by side.
type pageSides struct {
	Rows   []pageAlgorithm
	Curves *chart
	Keys   []pageSidesKey
	Left   string
}

type pageAlgorithm struct {
	Name, Blocked, Refused, RefusedPercent, Memory, Time string
	BlockedShare, RefusedShare                           template.CSS
}

type pageSidesKey struct {
	Key   string
	Cells []struct{ First, Refused string }
}

func (r *Report) pageSides() *pageSides {
	if len(r.Algorithms) == 0 {
		return nil
	}
	p := &pageSides{}

	// Shares are of the largest value, so that the bars can be compared.
	var mostBlocked, mostRefused int64
	for _, a := range r.Algorithms {
		mostBlocked, mostRefused = max(mostBlocked, a.Blocked), max(mostRefused, a.Refused)
	}

	for _, a := range r.Algorithms {
		p.Rows = append(p.Rows, pageAlgorithm{
			Name: a.Algorithm, Blocked: grouped(a.Blocked), Refused: grouped(a.Refused), RefusedPercent: percentOf(a.Refused, r.Requests),
			Memory: sizeText(a.StateBytes), Time: fmt.Sprintf("%.0f ns", a.HitNanos),
			BlockedShare: share(a.Blocked, mostBlocked), RefusedShare: share(a.Refused, mostRefused),
		})
	}

	p.Curves = r.curves()
	rows := compareAlgorithms(r.Algorithms)
	if left := len(rows) - pageAlgorithms; left > 0 {
		rows, p.Left = rows[:pageAlgorithms], counted(int64(left), "key")+" more"
	}

	for _, row := range rows {
		key := pageSidesKey{Key: shortened(row.key, 120), Cells: make([]struct{ First, Refused string }, len(row.blocked))}
		for i, b := range row.blocked {
			if b != nil {
				key.Cells[i].First, key.Cells[i].Refused = time.UnixMilli(int64(b.First)).UTC().Format("2 Jan 15:04:05"), grouped(b.Refused)
			}
		}
		p.Keys = append(p.Keys, key)
	}

	return p
}

// curves is what each algorithm lets through over time; nil if that was not kept.
func (r *Report) curves() *chart {
	var curves []curve
	for _, a := range r.Algorithms {
		if a.plot != nil {
			curves = append(curves, curve{a.Algorithm, fmt.Sprintf("%s of %s refused", grouped(a.Refused), counted(r.Requests, "request")), a.plot})
		}
	}
	return newCurves(curves)
}

// pageDiff is the difference between two sets of rules.
type pageDiff struct {
	Text  string
	Rules []pageChange
}

type pageChange struct {
	Name, Counts, Left string
	Rows               []pageChangeRow
}

type pageChangeRow struct{ Sign, Class, Key, First, Limit, Refused string }

func (a *AgainstReport) page() *pageDiff {
	if a == nil {
		return nil
	}
	p := &pageDiff{Text: fmt.Sprintf("Before, %s would have been refused.", counted(a.Refused, "request"))}
	for i := range a.Changes {
		p.Rules = append(p.Rules, a.Changes[i].page())
	}
	return p
}

func (c *RuleChange) page() pageChange {
	p := pageChange{Name: c.name(), Counts: c.counts()}
	shown := 0
	for _, one := range []struct {
		sign, class string
		blocked     []Blocked
	}{{"+", "plus", c.OnlyAfter}, {"−", "minus", c.OnlyBefore}} {
		for _, b := range worstFirst(one.blocked)[:min(len(one.blocked), pageChanges)] {
			p.Rows = append(p.Rows, pageChangeRow{one.sign, one.class, b.Key, shortTime(b.First), b.Limit, grouped(b.Refused)})
		}
		shown += len(one.blocked)
	}

	for _, k := range c.Changed[:min(len(c.Changed), pageChanges)] {
		p.Rows = append(p.Rows, pageChangeRow{"~", "", k.Key, changeText(shortTime(k.Before.First), shortTime(k.After.First)),
			changeText(k.Before.Limit, k.After.Limit), changeText(grouped(k.Before.Refused), grouped(k.After.Refused))})
	}

	if left := shown + len(c.Changed) - len(p.Rows); left > 0 {
		p.Left = counted(int64(left), "key") + " more"
	}
	return p
}
