package console

import (
	"fmt"
	"strconv"
	"strings"
)

// The size of the chart of an hour, in units of its SVG.
const (
	chartWidth  = 240
	chartHeight = 36
)

// A line is one line of the chart.
type line struct{ Class, Points string }

// chart draws requests and refusals a second.
func (n *numbers) chart() {
	most := 0.0
	for _, values := range [][]float64{n.PerSecond.Checks, n.PerSecond.Refused} {
		for _, value := range values {
			most = max(most, value)
		}
	}
	if most <= 0 {
		return
	}
	n.Most = strconv.FormatFloat(most, 'f', 1, 64)
	n.Lines = []line{{"checks", points(n.PerSecond.Checks, most)}, {"refused", points(n.PerSecond.Refused, most)}}
}

// points are the points of a line, with 0 at the bottom.
func points(values []float64, most float64) string {
	var b strings.Builder
	for i, value := range values {
		x := float64(chartWidth)
		if len(values) > 1 {
			x = chartWidth * float64(i) / float64(len(values)-1)
		}
		fmt.Fprintf(&b, "%.1f,%.1f ", x, chartHeight-1-(chartHeight-2)*max(0, value)/most)
	}
	return strings.TrimSuffix(b.String(), " ")
}
