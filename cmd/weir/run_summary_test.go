package main

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"

	"weir/cmd/internal/config"
	"weir/pkg/collector"
	"weir/pkg/collector/pipeline"
	"weir/pkg/rule"
)

// The summary of a run has the patterns of a source without files, the error of a source that may not read, and the address
// and the configuration that the named commands need.
func TestSummaryOfARun(t *testing.T) {
	summary := &runSummary{
		config: &config.Config{
			Data:      "/data",
			RuleSet:   &rule.Set{},
			Collector: config.Collector{Sources: []config.Source{{Name: "file-1", File: []string{"/var/log/a.log", "/var/log/b.log"}}, {Name: "lines", HTTP: "127.0.0.1:7402", Envelope: "auto", Format: "main"}, {Name: "queue", NATS: config.NATS{URL: "nats://127.0.0.1:4222"}}}},
			Enforcer:  config.Enforcer{Listen: "0.0.0.0:7421"},
		},
		metrics: prometheus.NewRegistry(),
		status: func() map[string]any {
			return map[string]any{"collector": collector.Status{Sources: []pipeline.SourceStatus{
				{Name: "file-1"}, {Name: "packed", Read: &pipeline.ReadFiles{Files: 2}}, {Name: "lines"}, {Name: "gone", Missing: []string{"/var/log/gone.log", "/srv/*.log"}}, {Name: "barred", Error: "open /secret.log: permission denied", Errors: []string{"open /secret.log: permission denied", "a second problem"}},
				{Name: "other", Logs: []pipeline.LogStatus{{Log: "/a\x1b[2J.log"}}, Errors: []string{"/b\x1b[2J.log: a problem"}},
				{Name: "queue"}, {Name: "store", Kind: "s3", Lost: 1200},
			}}}
		},
		file: "/etc/other.yaml",
	}
	var out strings.Builder
	synctest.Test(t, func(t *testing.T) { summary.print(t.Context(), &out) })
	for _, want := range []string{
		"           nothing yet in /var/log/a.log, /var/log/b.log\n",
		"           nothing yet in 127.0.0.1:7402\n",
		"reads      file-1: its first lines decide its format; 0 lines/s\n",
		"reads      lines: main; 0 lines/s\n",
		"reads      packed: its first lines decide its format; 0 lines/s\n           2 files read to the end\nreads      lines",
		"           nothing is read of /var/log/gone.log: it does not exist\n           nothing is read of /srv/*.log: it matches no file\nreads      barred",
		"           open /secret.log: permission denied\n           a second problem\n",
		"           nothing yet in queue\n",
		"           /a\\x1b[2J.log\n           /b\\x1b[2J.log: a problem\n",
		"           1,200 objects lost before being read; the log has the reason\n",
		"' http://localhost:7421/v1/check\n",
		"see        weir watch --config /etc/other.yaml; with the same flag weir list, weir status; data is in /data\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}
