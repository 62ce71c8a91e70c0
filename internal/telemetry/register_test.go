package telemetry

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestAMetricThatIsThereIsTaken(t *testing.T) {
	counter := func() prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_test_total", Help: "Of the test."})
	}
	r := prometheus.NewRegistry()
	if first := Register(r, counter()); Register(r, counter()) != first {
		t.Error("there are two")
	}
	if Register(nil, counter()) == nil {
		t.Error("without a registry there is none")
	}
	defer func() {
		if recover() == nil {
			t.Error("another metric of the same name is taken")
		}
	}()
	Register(r, prometheus.NewGauge(prometheus.GaugeOpts{Name: "weir_test_total", Help: "Of another."}))
}
