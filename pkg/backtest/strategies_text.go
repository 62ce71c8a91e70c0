package backtest

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Bounds of the text.
const (
	textStrategyKeys = 10
	textStrategyBars = 12
)

// WriteJSON writes the comparison as one object.
func (c *Comparison) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(c)
}

// WriteText writes the comparison for people. TextOptions.Top is not used.
func (c *Comparison) WriteText(w io.Writer, o TextOptions) error {
	t := &textWriter{Writer: bufio.NewWriter(w), options: o, keyWidth: max(24, cmp.Or(o.Width, 120)-80)}
	t.line("%s  %s", t.strong(c.Rule), t.faint(c.about()))
	if c.OfQueue() {
		t.line("  %s", c.queueText())
		return t.Flush()
	}
	t.line("  %s of %s%s", counted(c.Attempts, "attempt"), counted(c.Keys, "key"), c.span())
	t.line("  given were %s", verdictsText(c.Given))
	if c.Failed > 0 {
		t.line("  %s more came while the shared store failed, or met a full queue: no limit has decided them", counted(c.Failed, "attempt"))
	}
	if c.Unread > 0 {
		t.line("  %s could not be read", counted(c.Unread, "record"))
	}
	if c.Attempts > 0 {
		t.line("")
		t.strategies(c)
		t.refusedKeys(c)
		t.overTime(c)
	}
	return t.Flush()
}

func (c *Comparison) about() string { return strings.Join(c.Limits, " ") + " by " + c.Key }

func (c *Comparison) span() string {
	if c.Attempts == 0 {
		return ""
	}
	return fmt.Sprintf(", %s to %s (%s)", c.First, c.Last, durationText(int64(c.Last-c.First)))
}

// name is the algorithm, with a star if it is the rule's own.
func (s *Strategy) name() string {
	if s.Own {
		return s.Algorithm + "*"
	}
	return s.Algorithm
}

func (t *textWriter) strategies(c *Comparison) {
	head := []string{"strategy", "admitted", "refused", "", "keys refused"}
	for _, most := range c.Strategies[0].Most {
		head = append(head, "most, "+most.Limit)
	}
	table := textTable{append(head, "memory", "ns/attempt")}
	for i := range c.Strategies {
		s := &c.Strategies[i]
		row := []string{s.name(), grouped(s.Admitted), grouped(s.Refused), percentOf(s.Refused, c.Attempts), grouped(s.KeysRefused)}
		for _, most := range s.Most {
			row = append(row, grouped(most.Most))
		}
		table = append(table, append(row, sizeText(s.StateBytes), fmt.Sprintf("%.0f", s.TakeNanos)))
	}
	t.table(table, 1)
	t.line("  %s", t.faint("* the rule's own"))
}

// A strategyRow is a key with how many of its attempts each strategy refuses.
type strategyRow struct {
	key      string
	attempts int64
	refused  []int64
}

// refusedRows lists the keys that a strategy refuses most, by any of them, and how many others there are.
func (c *Comparison) refusedRows(most int) (rows []strategyRow, left int) {
	known := map[string]bool{}
	for i := range c.Strategies {
		for key, of := range c.Strategies[i].refused {
			if known[key] {
				continue
			}
			known[key] = true
			row := strategyRow{key: key, attempts: of.Attempts, refused: make([]int64, len(c.Strategies))}
			for j := range c.Strategies {
				row.refused[j] = c.Strategies[j].refused[key].Refused
			}
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b strategyRow) int {
		return cmp.Or(cmp.Compare(slices.Max(b.refused), slices.Max(a.refused)), cmp.Compare(a.key, b.key))
	})
	n := min(most, len(rows))
	return rows[:n], len(rows) - n
}

func (t *textWriter) refusedKeys(c *Comparison) {
	rows, left := c.refusedRows(textStrategyKeys)
	if len(rows) == 0 {
		return
	}
	t.line("")
	head := []string{"refused by key", "attempts"}
	for i := range c.Strategies {
		head = append(head, c.Strategies[i].name())
	}
	table := textTable{head}
	for _, row := range rows {
		line := []string{t.shortened(printable(row.key)), grouped(row.attempts)}
		for _, n := range row.refused {
			line = append(line, grouped(n))
		}
		table = append(table, line)
	}
	t.table(table, 1)
	t.left(left)
}

// overTime writes how many attempts each strategy has let through, in a few spans of time.
func (t *textWriter) overTime(c *Comparison) {
	t.line("")
	var all []*series
	for i := range c.Strategies {
		all = append(all, c.Strategies[i].plot.fewer(textStrategyBars))
	}
	head := []string{"let through, each " + eachText(all[0].width()), "asked"}
	for i := range c.Strategies {
		head = append(head, c.Strategies[i].name())
	}
	table := textTable{head}
	for i, b := range all[0].bars {
		line := []string{Instant(all[0].start(i)).String(), grouped(b.requests)}
		for _, s := range all {
			line = append(line, grouped(s.bars[i].passed()))
		}
		table = append(table, line)
	}
	t.table(table, 1)
}

// fewer is a copy with wider bars: at most so many.
func (s *series) fewer(most int) *series {
	few := s.clone()
	for len(few.bars) > most && few.step < len(barSteps)-1 {
		few.widen()
	}
	return few
}
