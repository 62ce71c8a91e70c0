// Package telemetry is what every part says of itself: its log, its metrics' registry, its health.
//
// Log makes the logger of a process, Faults says a fault that repeats at most once a minute with how often it came,
// Metrics is a registry with the process's own figures and build_info, and Health answers /healthz, /readyz and
// /status. Nothing here starts a goroutine; everything may be used by several at once.
package telemetry

import (
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Version is what the build recorded of itself: a tag, or a commit's time and hash.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

// Metrics is a registry with the figures of the process, of Go, and build_info of the part of that name.
func Metrics(part string) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	built := prometheus.NewGauge(prometheus.GaugeOpts{Name: "weir_build_info", Help: "1; the labels say what runs.",
		ConstLabels: prometheus.Labels{"part": part, "version": Version(), "go": runtime.Version()}})
	built.Set(1)
	registry.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector(), built)
	return registry
}
