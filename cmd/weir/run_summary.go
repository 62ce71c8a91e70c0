package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/cmd/internal/config"
	"weir/cmd/weir/internal/demo"
	"weir/cmd/weir/internal/output"
	"weir/cmd/weir/internal/shown"
	"weir/internal/duration"
	"weir/internal/uncounted"
	"weir/pkg/collector"
	"weir/pkg/rule"
)

// A runSummary describes what runs. `weir run` prints it once, soon after the start.
type runSummary struct {
	config  *config.Config
	metrics prometheus.Gatherer
	status  func() map[string]any
	demo    bool
	file    string // the configuration; empty where the tool finds it by itself
}

// speedAfter is how long lines are counted to measure their speed. By then sources have reported files that they may
// not read.
const speedAfter = 1500 * time.Millisecond

// print waits for speedAfter and prints the summary.
func (t *runSummary) print(ctx context.Context, w io.Writer) {
	before, began := t.requests(), time.Now()
	select {
	case <-time.After(speedAfter):
	case <-ctx.Done():
		return
	}

	speed := func(source string) float64 {
		return (t.requests()[source] - before[source]) / time.Since(began).Seconds()
	}
	var b strings.Builder
	t.sources(&b, speed)
	t.rules(&b)
	t.enforcer(&b)
	_, _ = io.WriteString(w, b.String()) // the log has all of it
}

// requests returns how many requests each source has read.
func (t *runSummary) requests() map[string]float64 {
	read := map[string]float64{}
	families, _ := t.metrics.Gather() // a partial result is enough
	for _, family := range families {
		if family.GetName() != "weir_collector_requests_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			read[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
		}
	}
	return read
}

// counted returns how many requests were read, and how many entries are in shadow mode.
func (t *runSummary) counted() (requests, shadow float64) {
	families, _ := t.metrics.Gather()
	for _, family := range families {
		for _, m := range family.GetMetric() {
			switch labels := m.GetLabel(); family.GetName() {
			case "weir_collector_requests_total":
				requests += m.GetCounter().GetValue()
			case "weir_enforcer_entries":
				if labels[0].GetValue() == rule.Shadow.String() { // mode, rule
					shadow += m.GetGauge().GetValue()
				}
			}
		}
	}
	return requests, shadow
}

func (t *runSummary) sources(b *strings.Builder, speed func(string) float64) {
	status, ok := t.status()["collector"].(collector.Status)
	if !ok {
		return
	}

	for _, s := range status.Sources {
		format := cmp.Or(s.Format, t.format(s.Name))
		fmt.Fprintf(b, "reads      %s: %s; %.0f lines/s\n", s.Name, format, speed(s.Name))
		for _, l := range s.Logs {
			fmt.Fprintf(b, "           %s\n", output.Printable(l.Log))
		}
		if s.Read != nil {
			fmt.Fprintf(b, "           %s read to the end\n", output.Counted(s.Read.Files, "file"))
		}

		if text := shown.Uncounted(s.Requests, s.Uncounted); text != "" {
			fmt.Fprintf(b, "           %s\n", text)
		}
		if s.Lost > 0 {
			fmt.Fprintf(b, "           %s lost before being read; the log has the reason\n", shown.Lost(s.Kind, s.Lost))
		}
		for _, text := range s.Errors {
			fmt.Fprintf(b, "           %s\n", output.Printable(text))
		}
		for _, file := range s.Missing {
			fmt.Fprintf(b, "           nothing is read of %s: it %s\n", output.Printable(file), uncounted.Missing(file))
		}
		if s.Error == "" && len(s.Missing) == 0 && len(s.Logs) == 0 && s.Read == nil {
			fmt.Fprintf(b, "           nothing yet in %s\n", t.place(s.Name))
		}
	}
}

// format describes the format of a source before its first line.
func (t *runSummary) format(name string) string {
	for _, s := range t.config.Collector.Sources {
		if s.Name == name && s.Format != "" && s.Format != "auto" {
			return s.Format
		}
	}

	return "its first lines decide its format"
}

// place returns the files, topics or the address of a source, or its name.
func (t *runSummary) place(name string) string {
	for _, s := range t.config.Collector.Sources {
		if s.Name == name {
			return cmp.Or(strings.Join(slices.Concat(s.File, s.Kafka), ", ")+s.HTTP+s.Syslog+s.OTLP+s.Loki, name)
		}
	}
	return name
}

func (t *runSummary) rules(b *strings.Builder) {
	for _, r := range t.config.RuleSet.Rules {
		limits := make([]string, len(r.Limits))
		for i, l := range r.Limits {
			limits[i] = l.String()
		}
		fmt.Fprintf(b, "rule       %s: %s by %s, %s\n", r.Name, strings.Join(limits, " "), r.Key, modeInWords(r)+guardInWords(r))
	}
}

func guardInWords(r *rule.Rule) string {
	if r.Guard.Off() {
		return ""
	}
	return ", guard " + r.GuardText()
}

func modeInWords(r *rule.Rule) string {
	mode := "enforce"
	if r.Mode == rule.Shadow {
		mode = "shadow: shown, not refused"
	}
	if r.Inline {
		if r.CountsRefusals() {
			return fmt.Sprintf("inline, blocks after %d refused in %s, %s", r.Block.After, duration.Format(r.Block.Within), mode)
		}
		return "inline, " + mode
	}
	return mode
}

func (t *runSummary) enforcer(b *strings.Builder) {
	url := t.config.Enforcer.TLS.URL(t.config.Enforcer.Listen)
	client := "203.0.113.7"
	if t.demo {
		client = demo.Abusers()[0].String()
	}
	fmt.Fprintf(b, "enforcer   %s\n", url)
	if serves, _ := t.config.Enforcer.ServesConsole(); serves {
		fmt.Fprintf(b, "console    %s/console/\n", url)
	}
	fmt.Fprintf(b, "ask it     curl -i -H 'X-Forwarded-For: %s' %s/v1/check\n", client, url)
	fmt.Fprintf(b, "see        weir watch%s weir list, weir status; data is in %s\n", t.flags(), t.config.Data)
}

// flags returns the flags that the named commands need to find the same configuration.
func (t *runSummary) flags() string {
	if t.file == "" {
		return ","
	}
	return " --config " + t.file + "; with the same flag"
}
