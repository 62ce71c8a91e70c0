package daemon

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"weir/cmd/internal/config"
	"weir/test/locked"
)

// A reloaded part counts its reloads.
type reloaded struct{ times int }

func (*reloaded) Run(context.Context) error { return nil }
func (*reloaded) Status() any               { return nil }
func (*reloaded) Close() error              { return nil }

func (r *reloaded) Reload(*config.Config) error {
	r.times++
	return nil
}

// A topic of attempts cannot begin while the parts run: the new configuration is refused, and the old one stays.
func TestAFirstBlockAfterRefusalsNeedsARestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "weir.yaml")
	write := func(rule string) *config.Config {
		t.Helper()
		if err := os.WriteFile(file, []byte("rules: [{name: quota, key: ip, limits: [10/min], inline: true"+rule+"}]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		c, _, err := config.Load(config.Options{File: file})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	var log locked.Buffer
	one := &reloaded{}
	p := &Process{Config: write(""), Logger: slog.New(slog.NewTextHandler(&log, nil)), Metrics: prometheus.NewRegistry(), files: &rereads{}}
	r := newReloader(p, one, config.Options{File: file}, nil)
	write(", block: {after: 3, within: 1m}")
	r.reload()
	if one.times != 0 || !strings.Contains(log.String(), "restart all parts") {
		t.Errorf("%d parts reloaded: %s", one.times, log.String())
	}
	write(", mode: shadow")
	r.reload()
	if one.times != 1 {
		t.Errorf("%d parts reloaded: %s", one.times, log.String())
	}

	// Where attempts are kept already, blocks may come and go.
	p.Config = write(", block: {after: 3, within: 1m}")
	write(", block: {after: 4, within: 2m}")
	r.reload()
	if one.times != 2 {
		t.Errorf("%d parts reloaded: %s", one.times, log.String())
	}
}

// A file that only one part reads and that cannot be read leaves all parts as they are.
func TestAFaultyFileLeavesAllPartsAsTheyAre(t *testing.T) {
	folder := t.TempDir()
	senders := filepath.Join(folder, "senders.txt")
	if err := os.WriteFile(senders, []byte("198.51.100.0/24\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := `
collector: {sources: [{name: one, syslog: "udp://127.0.0.1:5514", format: combined, from: [{file: senders.txt}]}]}
rules: [{name: per-ip, key: ip, limits: [10/min]}]
`
	c, _, err := config.Read([]byte(text), config.Options{File: filepath.Join(folder, "weir.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	one := &reloaded{}
	w := &allInOne{parts: []openPart{{Running: one}, {Running: one}}}
	if err := w.Reload(c); err != nil || one.times != 2 {
		t.Errorf("%v, %d parts reloaded", err, one.times)
	}
	if err := os.WriteFile(senders, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.Reload(c); err == nil || one.times != 2 {
		t.Errorf("an empty file: %v, %d parts reloaded", err, one.times-2)
	}
	if err := os.Remove(senders); err != nil {
		t.Fatal(err)
	}
	if err := w.Reload(c); err == nil || one.times != 2 {
		t.Errorf("%v, %d parts reloaded", err, one.times-2)
	}
}
