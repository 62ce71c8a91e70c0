package aggregator

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/telemetry"
)

// Gauges are read from the statuses of our partitions when they are collected. A lag that is not known is left out.
type gauges struct {
	partitions                            int
	statuses                              func() map[int]*PartitionStatus
	outside                               func() bool // there is no place in the group for us
	records, unknown, hot, dirty, waiting *prometheus.Desc
}

func registerGauges(r prometheus.Registerer, partitions int, statuses func() map[int]*PartitionStatus, outside func() bool) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	telemetry.Register(r, &gauges{partitions, statuses, outside,
		desc("weir_aggregator_lag_records", "Records that wait to be counted, where that is known.", "partition"),
		desc("weir_aggregator_lag_unknown_partitions", "Partitions whose lag is unknown."),
		desc("weir_aggregator_hot_keys", "Windows in memory."),
		desc("weir_aggregator_dirty_keys", "Windows that have changed since they were written."),
		desc("weir_aggregator_waiting_hits", "Hits that wait for the store to answer."),
	})
}

// Describe is for the registry.
func (g *gauges) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{g.records, g.unknown, g.hot, g.dirty, g.waiting} {
		to <- desc
	}
}

// Collect is for the registry.
func (g *gauges) Collect(to chan<- prometheus.Metric) {
	show := func(desc *prometheus.Desc, value int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), labels...)
	}

	var unknown, hot, dirty, waiting int
	for number, s := range g.statuses() {
		if s == nil {
			unknown++
			continue
		}
		hot, dirty, waiting = hot+s.Hot, dirty+s.Dirty, waiting+s.Waiting
		if s.LagUnknownSince != nil {
			unknown++
			continue
		}
		show(g.records, s.Lag, strconv.Itoa(number))
	}

	if g.outside() {
		unknown = g.partitions // any of them may be ours when Kafka is back
	}
	show(g.unknown, int64(unknown))
	show(g.hot, int64(hot))
	show(g.dirty, int64(dirty))
	show(g.waiting, int64(waiting))
}
