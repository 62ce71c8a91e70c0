package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/cmd/internal/config"
	"weir/internal/network"
)

const (
	// The intervals between two looks for changes: of the configuration and the rules, and of keys and certificates.
	lookEvery        = time.Second
	lookAtFilesEvery = time.Second

	// After so many looks, files are read although they have changed since the look before.
	unsettledLooks = 5
)

// A reloader reads the configuration again when one of its files has changed, and on SIGHUP.
type reloader struct {
	process *Process
	running Running
	options config.Options
	current *config.Config
	files   string // look of the files when they were last read
	seen    string // the last look
	changes int    // looks since the files were read, each different from the one before
	hangup  <-chan os.Signal

	successful, at prometheus.Gauge
	rules          *prometheus.GaugeVec
}

func newReloader(p *Process, running Running, options config.Options, hangup <-chan os.Signal) *reloader {
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
		p.Metrics.MustRegister(g)
		return g
	}

	r := &reloader{
		process: p, running: running, options: options, hangup: hangup, current: p.Config, files: look(p.Config),
		successful: gauge("weir_config_last_reload_successful", "1 when the configuration that was read last is active, 0 when it was refused."),
		at:         gauge("weir_config_last_reload_success_timestamp_seconds", "When a configuration was last applied."),
		rules:      prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "weir_rules_info", Help: "1; the label is the hash of the active rules."}, []string{"hash"}),
	}

	// The metrics are right before the first reload.
	p.Metrics.MustRegister(r.rules)
	r.applied(p.Config)
	return r
}

// run reloads until the context is done.
func (r *reloader) run(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()

	for {
		select {
		case <-ctx.Done():
			return
		case <-r.hangup:
			r.reload()
		case <-ticker.C:
			if r.changed(look(r.current)) {
				r.reload()
			}
			r.showSuccess()
		}
	}
}

// changed reports whether files that look like this are to be read. While they change, they may be half written: half a
// file of rules can be a valid one, without the modes of its rules or its allow entries.
func (r *reloader) changed(files string) bool {
	settled := files == r.seen
	r.seen = files
	if files == r.files {
		r.changes = 0
		return false
	}
	r.changes++
	return settled || r.changes > unsettledLooks
}

var errNoRules = errors.New("there are no rules: write rules.yaml next to weir.yaml")

var errAttemptsLater = errors.New("attempts at inline rules are to be kept from now on, for inline.history or a block after refused attempts: restart all parts")

// reload reads the configuration and applies it, or logs why it does not.
func (r *reloader) reload() {
	r.process.notifyReloading()
	defer r.process.notifyReloaded()
	r.files, r.changes = look(r.current), 0 // before reading, so that a change meanwhile is read at the next look
	next, warnings, err := config.Load(r.options)
	for _, warning := range warnings {
		r.process.Logger.Warn(warning.String())
	}

	if err == nil && next.RuleSet == nil {
		err = errNoRules // the configuration file is gone
	}
	if err == nil && next.KeepsAttempts() && !r.process.Config.KeepsAttempts() {
		err = errAttemptsLater
	}
	if err == nil {
		err = r.running.Reload(next)
	}

	if err != nil {
		why := err.Error()
		r.process.files.refused.Store(&why)
		r.showSuccess()
		for _, line := range strings.Split(err.Error(), "\n") {
			r.process.Logger.Error("the new configuration is refused, the previous one stays active", "error", line)
		}
		return
	}

	// From here on the new files are watched: rules may lie in others now.
	r.process.files.refused.Store(nil)
	was := r.current.RuleSet.Fingerprint()
	r.current = next
	r.applied(next)
	r.process.Logger.Info("read the configuration again", "rules", next.RuleSet.Fingerprint(), "rules before", was)
}

// showSuccess sets the metric that reports whether the configuration and the files of keys and certificates that were read
// last are active.
func (r *reloader) showSuccess() {
	if files := r.process.files; files.refused.Load() != nil || files.faulty() {
		r.successful.Set(0)
	} else {
		r.successful.Set(1)
	}
}

func (r *reloader) applied(c *config.Config) {
	r.showSuccess()
	r.at.SetToCurrentTime()
	r.rules.Reset()
	r.rules.WithLabelValues(c.RuleSet.Fingerprint()).Set(1)
}

// look describes the files of the configuration that a process starts with.
func (p *Process) look() string {
	if p.Config.RuleSet == nil {
		return ""
	}
	return look(p.Config)
}

// look describes the configuration's files, as lookAt does.
func look(c *config.Config) string {
	paths := []string{c.File}

	// The patterns again, and not only the files that were read: a new file that matches changes the rules.
	for _, pattern := range c.Rules.Patterns {
		if !filepath.IsAbs(pattern) {
			pattern = filepath.Join(filepath.Dir(c.File), pattern)
		}
		found, _ := filepath.Glob(pattern)
		paths = append(paths, found...)
	}

	paths = append(paths, c.RuleSet.Files()...)
	paths = append(paths, c.GeoIP.Databases...)
	networks := []network.List{c.Client.TrustedProxies}
	for i := range c.Collector.Sources {
		networks = append(networks, c.Collector.Sources[i].From)
	}

	for _, one := range networks {
		for _, file := range one.Files {
			paths = append(paths, file.Name)
		}
	}

	return lookAt(paths...)
}

// lookAt describes files by size, time of change and inode. It follows links, so that it notices when a ConfigMap's links
// are replaced.
func lookAt(paths ...string) string {
	paths = slices.Sorted(slices.Values(paths))
	var text strings.Builder
	for _, path := range slices.Compact(paths) {
		if info, err := os.Stat(path); err == nil {
			stat, _ := info.Sys().(*syscall.Stat_t)
			fmt.Fprintln(&text, path, info.Size(), info.ModTime().UnixNano(), stat.Ino)
		}
	}
	return text.String()
}
