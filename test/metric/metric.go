// Package metric reads the metrics that a part under test has registered.
package metric

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Value is the sum of a counter or gauge over all metrics with some labels, given as names and values in turn, and the
// number of these metrics.
func Value(t testing.TB, from prometheus.Gatherer, name string, labels ...string) (sum float64, count int) {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}

	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			has := map[string]string{}
			for _, label := range m.GetLabel() {
				has[label.GetName()] = label.GetValue()
			}
			if matches(has, labels) {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
				count++
			}
		}
	}

	return sum, count
}

func matches(has map[string]string, labels []string) bool {
	for i := 0; i+1 < len(labels); i += 2 {
		if has[labels[i]] != labels[i+1] {
			return false
		}
	}
	return true
}
