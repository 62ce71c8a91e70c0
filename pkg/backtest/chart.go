package backtest

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
)

// A chart is one or more plots over the same bars of time. A plot is as wide as the number of bars, and 100 high with 0
// at the top; the page stretches it.
type chart struct {
	Bars  int
	Each  string // how long a bar is, in words
	Tips  string // JSON: for each bar the text to show when the pointer is on it
	Plots []plot
	Times []tick
}

type plot struct {
	Name   string // over the plot; may be empty
	Alt    string // a description for screen readers
	Height int    // pixels
	Ticks  []tick
	Grid   string // path
	Shapes []shape
}

type shape struct{ Class, Path string }

// A tick is a text at a place of an axis, in percent of its length.
type tick struct {
	Place, Text string
	Minor       bool // left out on narrow screens
}

// newChart makes a chart without plots; tip gives the text of a bar below its time.
func newChart(s *series, tip func(bar) string) *chart {
	return newChartOf(s, func(i int) string { return tip(s.bars[i]) })
}

// newChartOf is newChart with the texts by the number of the bar.
func newChartOf(s *series, tip func(i int) string) *chart {
	c := &chart{Bars: len(s.bars), Each: eachText(s.width()), Times: timeTicks(s)}
	tips := make([]string, len(s.bars))
	for i := range s.bars {
		tips[i] = barTime(s.start(i), s.width()) + "\n" + tip(i)
	}
	text, _ := json.Marshal(tips)
	c.Tips = string(text)
	return c
}

// stacked adds a plot of bars: passed requests below, refused ones above.
func (c *chart) stacked(s *series, name string, height int) {
	top := niceTop(most(s, func(b bar) int64 { return b.requests }))
	c.Plots = append(c.Plots, plot{
		Name: name, Alt: "requests over time, let through and refused", Height: height, Ticks: valueTicks(top), Grid: gridOf(c.Bars),
		Shapes: []shape{
			{"p", barsOf(s, top, func(b bar) (int64, int64) { return 0, b.requests - b.refused })},
			{"r", barsOf(s, top, func(b bar) (int64, int64) { return b.requests - b.refused, b.requests })},
		},
	})
}

// refusedOnly adds a plot of the refused requests on a scale of their own.
func (c *chart) refusedOnly(s *series, height int) {
	top := niceTop(most(s, func(b bar) int64 { return b.refused }))
	c.Plots = append(c.Plots, plot{
		Name: "refused, on a scale of its own", Alt: "refused requests over time", Height: height, Ticks: valueTicks(top), Grid: gridOf(c.Bars),
		Shapes: []shape{{"r", barsOf(s, top, func(b bar) (int64, int64) { return 0, b.refused })}},
	})
}

// againstLimit adds a plot of the hits in a limit's window. Between hits it is the number at the hit before, until that
// has left the window.
func (c *chart) againstLimit(s *series, limit, per int64, name string, pixels int) {
	top := niceTop(max(most(s, func(b bar) int64 { return b.peak }), limit))
	line := height(limit, top)
	steps := stepsOf(s, top, per)
	c.Plots = append(c.Plots, plot{
		Name: name, Alt: name, Height: pixels, Ticks: valueTicks(top), Grid: gridOf(c.Bars),
		Shapes: []shape{
			{"area", steps + "V100H0z"},
			{"edge", steps},
			{"limit", fmt.Sprintf("M0 %sH%d", number(line), c.Bars)},
		},
	})
}

// A curve is what a strategy lets through over time.
type curve struct {
	name, text string
	series     *series
}

// newCurves makes a chart with a plot for each curve, all over the same bars and on one scale: the requests, and in
// front of them those that were let through. It is nil without any bars.
func newCurves(curves []curve) *chart {
	if len(curves) == 0 || len(curves[0].series.bars) == 0 {
		return nil
	}
	first := curves[0].series
	c := newChartOf(first, func(i int) string {
		text := grouped(first.bars[i].requests) + " asked"
		for _, one := range curves {
			text += fmt.Sprintf("\n%s: %s let through", one.name, grouped(one.series.bars[i].passed()))
		}
		return text
	})
	top := niceTop(most(first, func(b bar) int64 { return b.requests }))
	for _, one := range curves {
		asked := levelsOf(one.series, top, func(b bar) int64 { return b.requests })
		passed := levelsOf(one.series, top, bar.passed)
		c.Plots = append(c.Plots, plot{
			Name: one.name + ": " + one.text, Alt: one.name + ": let through over time, of what was asked for", Height: 64, Ticks: valueTicks(top), Grid: gridOf(c.Bars),
			Shapes: []shape{{"asked", asked + "V100H0z"}, {"area", passed + "V100H0z"}, {"edge", passed}},
		})
	}
	return c
}

// levelsOf is a line along the values of the bars.
func levelsOf(s *series, top int64, of func(bar) int64) string {
	return stairs(len(s.bars), func(i int) string { return number(height(of(s.bars[i]), top)) })
}

// stairs is a line that has a height for each bar.
func stairs(bars int, at func(i int) string) string {
	var p strings.Builder
	last := ""
	for i := range bars {
		y := at(i)
		switch {
		case i == 0:
			p.WriteString("M0 " + y)
		case y != last:
			fmt.Fprintf(&p, "H%dV%s", i, y)
		}
		last = y
	}
	fmt.Fprintf(&p, "H%d", bars)
	return p.String()
}

func most(s *series, of func(bar) int64) (most int64) {
	for _, b := range s.bars {
		most = max(most, of(b))
	}
	return most
}

// barsOf is a path of a rectangle for each bar. A small number of bars has gaps between them.
func barsOf(s *series, top int64, between func(bar) (from, to int64)) string {
	var p strings.Builder
	width := 1.0
	if len(s.bars) <= 120 {
		width = 0.84
	}
	for i, b := range s.bars {
		if from, to := between(b); to > from {
			fmt.Fprintf(&p, "M%s %sh%sV%sh-%sz", number(float64(i)+(1-width)/2), number(height(from, top)), number(width), number(height(to, top)), number(width))
		}
	}
	return p.String()
}

// stepsOf is a line along the peaks.
func stepsOf(s *series, top, per int64) string {
	var peak, holds int64
	return stairs(len(s.bars), func(i int) string {
		// A peak counts as long as the window that it filled: without requests it holds until that has passed.
		if b := s.bars[i]; b.requests > 0 {
			peak, holds = b.peak, s.start(i+1)+per
		} else if s.start(i) >= holds {
			peak = 0
		}
		return number(height(peak, top))
	})
}

func height(value, top int64) float64 { return 100 - 100*float64(value)/float64(top) }

// number is a coordinate, with no more digits than are visible.
func number(x float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", x), "0"), ".")
}

func percent(x float64) string { return number(100*x) + "%" }

func gridOf(bars int) string { return fmt.Sprintf("M0 0H%dM0 50H%dM0 100H%d", bars, bars, bars) }

// niceTop is the end of a scale: 1, 2, 4, 5, 6 or 8 times a power of ten, at or above value.
func niceTop(value int64) int64 {
	for power := int64(1); ; power *= 10 {
		for _, digit := range []int64{1, 2, 4, 5, 6, 8} {
			if top := digit * power; top >= value {
				return max(top, 2)
			}
			if power > math.MaxInt64/100 {
				return math.MaxInt64
			}
		}
	}
}

func valueTicks(top int64) []tick {
	ticks := []tick{{Place: "0%", Text: short(float64(top))}, {Place: "100%", Text: "0"}}
	if half := float64(top) / 2; half == math.Trunc(half) {
		ticks = append(ticks, tick{Place: "50%", Text: short(half)})
	}
	return ticks
}

// short is a number of at most four characters or so: 950, 1.5k, 20M.
func short(x float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if x >= unit.size {
			return number(x/unit.size) + unit.name
		}
	}
	return number(x)
}

// eachText is the width of a bar in words.
func eachText(millis int64) string {
	for _, u := range []struct {
		millis int64
		name   string
	}{{7 * 86_400_000, "week"}, {86_400_000, "day"}, {3_600_000, "hour"}, {60_000, "minute"}, {1000, "second"}} {
		if n := millis / u.millis; n > 0 {
			if n == 1 {
				return "one " + u.name
			}
			return fmt.Sprintf("%d %ss", n, u.name)
		}
	}
	return fmt.Sprintf("%d ms", millis)
}

func barTime(start, width int64) string {
	t := time.UnixMilli(start).UTC()
	switch {
	case width >= 86_400_000:
		return t.Format("2 Jan 2006")
	case width >= 60_000:
		return t.Format("2 Jan 15:04")
	}
	if width < 1000 {
		return t.Format("2 Jan 15:04:05.0")
	}
	return t.Format("2 Jan 15:04:05")
}

// timeSteps are the distances between ticks of time, in seconds.
var timeSteps = []int64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 2 * 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 2 * 86400, 4 * 86400, 7 * 86400, 14 * 86400, 28 * 86400, 91 * 86400, 182 * 86400, 364 * 86400, 3640 * 86400, 36400 * 86400}

// timeTicks are the times below a chart, eight at most.
func timeTicks(s *series) []tick {
	const mostTicks = 8
	if len(s.bars) == 0 {
		return nil
	}

	from, span := s.start(0), int64(len(s.bars))*s.width()
	step := timeSteps[len(timeSteps)-1] * 1000
	for _, seconds := range timeSteps {
		if span/(seconds*1000) < mostTicks {
			step = seconds * 1000
			break
		}
	}

	var ticks []tick

	// Ticks are at round times, not at round distances from the beginning.
	last := ""
	for at := (from + step - 1) / step * step; at <= from+span; at += step {
		place := float64(at-from) / float64(span)
		if place < 0.02 || place > 0.97 {
			continue // its text would stand next to the plot
		}
		text, day := timeText(at, step, last)
		last = day
		ticks = append(ticks, tick{Place: percent(place), Text: text, Minor: len(ticks)%2 == 1})
	}

	return ticks
}

// timeText is the text of a tick. It has the day if that differs from the tick before.
func timeText(at, step int64, lastDay string) (text, day string) {
	t := time.UnixMilli(at).UTC()
	day = t.Format("2 Jan")
	switch {
	case step >= 182*86_400_000:
		return t.Format("Jan 2006"), day
	case step >= 86_400_000:
		return day, day
	case day != lastDay && lastDay != "":
		return day, day
	case step < 60_000:
		return t.Format("15:04:05"), day
	}

	return t.Format("15:04"), day
}
