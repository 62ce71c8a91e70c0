// Package telemetry is the log, the metrics and the health of every part.
//
// Log makes the logger of a process. Faults logs a repeated error at most once a minute with its count. Metrics is a
// registry with the process's own figures and build_info. Health answers /healthz, /readyz and /status. Nothing here
// starts a goroutine; everything may be used by several at once.
package telemetry

import (
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Version returns the version that the build recorded: a tag, or a commit's time and hash.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

// Metrics returns a registry with the figures of the process, of Go, and build_info of the named part.
func Metrics(part string) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	built := prometheus.NewGauge(prometheus.GaugeOpts{Name: "weir_build_info", Help: "1; the labels have the part and its version.",
		ConstLabels: prometheus.Labels{"part": part, "version": Version(), "go": runtime.Version()}})
	built.Set(1)
	registry.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector(), built)
	return registry
}
