// Package files is the source of log files: it follows the files of some patterns and their rotated ones, and gives each
// log's lines to a stream, once, whatever the files are called meanwhile. Logs are what the process knows of all its
// logs, kept in its journal.
//
// The package knows files, lines and positions. It does not know what a line says.
package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"weir/pkg/collector/pace"
	"weir/pkg/collector/pipeline"
)

const (
	pollEvery  = time.Second            // in case a notification is lost
	pollAlone  = 200 * time.Millisecond // without notifications
	globEvery  = 10                     // polls
	lookAfter  = 10 * time.Millisecond  // a file has come: others may come with it
	maxStarted = 1 << 16                // families: more than that are a pattern that is too wide
)

// A Config names the files of a source.
type Config struct {
	Patterns []string // paths and globs
	Start    pipeline.Start
}

// A source follows the files of its patterns, each with its rotated files (a family).
//
// The system notifies it of files that are written, renamed and removed (inotify). It also looks once a second,
// because notifications can be lost. One goroutine takes the notifications, and one per family reads.
type source struct {
	in       *pipeline.Intake
	config   Config
	known    *Logs
	watcher  *fsnotify.Watcher // nil when there are no notifications
	families map[string]*family
	calmed   chan struct{} // a family does not read at each beat any more
	watched  map[string]bool
	running  sync.WaitGroup
	barred   barredFiles
	read     readFiles
	missing  missingFiles
	ends     ends
	finding  *pace.Member         // others wait for it until it has found its files
	began    map[string]beginning // by pattern
}

// New makes a source. Its files are of the known logs.
func New(in *pipeline.Intake, known *Logs, config Config) (pipeline.Source, error) {
	f := &source{in: in, config: config, known: known, families: map[string]*family{}, calmed: make(chan struct{}, 1), watched: map[string]bool{}, began: map[string]beginning{}}
	for _, pattern := range config.Patterns {
		if _, err := filepath.Match(pattern, ""); err != nil {
			return nil, fmt.Errorf("the pattern %q: %w", pattern, err)
		}
	}
	return f, nil
}

func (f *source) Status() pipeline.SourceStatus {
	status := f.in.Status("file")
	status.CaughtUp = status.CaughtUp && f.barred.none()
	f.ends.add(&status)
	status.Read = f.read.status()
	status.Missing = f.missing.of(f.config.Patterns, &status)
	if fault := f.barred.lasting(); fault != nil {
		status.AddError(fault.Error())
	}

	lag := int64(0)
	for _, log := range status.Logs {
		lag += log.Lag
	}

	f.in.SetLagBytes(lag)
	return status
}

// reportBarred reports the files that cannot be read now.
func (f *source) reportBarred() {
	fault, over := f.barred.report()
	if fault != nil {
		f.in.Trouble("open", fault)
	} else if over {
		f.in.Mended("open")
	}
}

// Run follows the files until the context is done.
func (f *source) Run(ctx context.Context) error {
	defer f.running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // also after a panic
	var err error
	if f.watcher, err = fsnotify.NewWatcher(); err != nil {
		f.in.Trouble("watch", fmt.Errorf("there are no notifications of file changes, so files are checked every %s: %w", pollAlone, err))
		f.watcher = nil
	} else {
		defer func() { _ = f.watcher.Close() }() // it was only read
	}

	for _, pattern := range f.config.Patterns {
		f.begin(pattern)
	}
	f.discover(ctx, true)
	f.finding.Leave()
	f.follow(ctx)
	return nil
}

// Announce makes others wait for the source's files until it has found them: their requests may be older.
func (f *source) Announce() { f.finding = f.in.Join(f.in.Name()) }

// begin determines where files of a pattern are read from.
func (f *source) begin(pattern string) {
	start, from := f.config.Start, int64(pace.NoTime)
	if start.Before > 0 {
		from = f.in.Now().Add(-start.Before).UnixMilli()
	}
	notBefore, first := f.known.begin(pattern, from)
	f.began[pattern] = beginning{notBefore, first && (start.Latest || start.Before > 0)}
}

// follow wakes families until the context is done.
func (f *source) follow(ctx context.Context) {
	events, faults, every := f.notifications()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	forget, lost := time.After(forgetAfter), time.After(lostAfter)

	quiet := newLull(f.in.Batch())
	defer quiet.timer.Stop()
	var look <-chan time.Time
	for n := 1; ; n++ {
		taken := events
		if quiet.lasts {
			taken = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-look:
			look = nil
			f.discover(ctx, false)
		case <-forget:
			f.known.forget()
		case <-lost:
			f.reportLost()
		case <-quiet.timer.C:
			quiet.turn(f.in.NextBeat(), f.allSteady())
		case <-f.calmed:
			quiet.end()
		case event, ok := <-taken:
			if !ok {
				events = nil
				continue
			}
			if f.notified(event) && look == nil {
				look = time.After(lookAfter)
			}
			quiet.note()
		case err := <-faults:
			f.in.Incident("watch", fmt.Errorf("notifications of file changes were lost; files are checked once a second: %w", err))
		case <-ticker.C:
			if n%globEvery == 0 {
				f.discover(ctx, false)
			}
			for _, one := range f.families {
				one.poll()
			}
			f.reportBarred()
			f.Status() // the gauges
		}
	}
}

// allSteady reports whether every family reads at each beat, so that notifications are not urgent.
func (f *source) allSteady() bool {
	for _, one := range f.families {
		if !one.steady.Load() {
			return false
		}
	}
	return true
}

// reportLost warns of logs whose file was rotated, while no process followed it, to where no pattern leads.
func (f *source) reportLost() {
	for path := range f.families {
		if log := f.known.lost(path); log != nil {
			f.in.Logger().Warn("the file that was read before is gone, and lines that came after its last reading are not counted; if rotation gives files another folder or name, add these to file",
				"file", path, "log", log.source, "read", log.position)
		}
	}
}

func (f *source) notifications() (<-chan fsnotify.Event, <-chan error, time.Duration) {
	if f.watcher == nil {
		return nil, nil, pollAlone
	}
	return f.watcher.Events, f.watcher.Errors, pollEvery
}

// notified wakes the family of a file that was written, and makes families scan when files came or went. unknown means
// that a new file belongs to none of them.
func (f *source) notified(event fsnotify.Event) (unknown bool) {
	one := f.families[event.Name]
	if event.Op == fsnotify.Write && one != nil {
		one.woken(false)
		return false
	}
	if event.Op == fsnotify.Chmod {
		return false
	}
	if event.Has(fsnotify.Remove) || event.Has(fsnotify.Rename) {
		delete(f.watched, event.Name) // if it was a folder
	}

	unknown = event.Has(fsnotify.Create)
	folder, name := filepath.Split(event.Name)
	for _, one := range f.families {
		if one.has(filepath.Clean(folder), name) {
			one.woken(event.Op != fsnotify.Write)
			unknown = false
		}
	}

	return unknown
}

// discover finds the files of the patterns, and starts a family for each that has none.
func (f *source) discover(ctx context.Context, starting bool) {
	folders := map[string]error{}
	empty := map[string]bool{}
	defer func() { f.barred.set("", folders); f.missing.set(empty) }()
	for _, pattern := range f.config.Patterns {
		folder := filepath.Dir(pattern)
		f.watch(folder)
		if err := listable(folder); err != nil {
			folders[folder] = fmt.Errorf("looking for %s: %w", pattern, err)
		}
		paths := f.matches(pattern)
		empty[pattern] = len(paths) == 0
		for _, path := range paths {
			if f.families[path] == nil && len(f.families) < maxStarted && ctx.Err() == nil {
				f.start(ctx, path, pattern, starting)
			}
		}
	}
}

// listable returns the error for a folder that exists but cannot be listed: a pattern in it would match nothing. It
// skips folders that are patterns themselves.
func listable(folder string) error {
	if strings.ContainsAny(folder, `*?[\`) {
		return nil
	}
	opened, err := os.Open(folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return opened.Close()
}

// matches returns the live files of a pattern: the files that it matches, without those that were rotated from others.
func (f *source) matches(pattern string) []string {
	if !strings.ContainsAny(pattern, `*?[\`) {
		return []string{pattern}
	}
	found, err := filepath.Glob(pattern)
	if err != nil {
		f.in.Trouble("glob", fmt.Errorf("looking for %s: %w", pattern, err))
	}

	var paths []string
	for _, path := range found {
		folder, name := filepath.Split(path)
		// access.log.1.gz is of access.log, there or not, and not of access.log.1: rotated files have several endings.
		for _, live := range slices.Backward(liveOf(name)) {
			if matched, _ := filepath.Match(pattern, folder+live); matched || f.families[folder+live] != nil {
				path = folder + live
				break
			}
		}

		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
			continue
		}
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}

	return paths
}

// watch subscribes to the notifications of a folder.
func (f *source) watch(folder string) {
	if f.watcher == nil || f.watched[folder] {
		return
	}
	err := f.watcher.Add(folder)
	switch {
	case err == nil:
		f.watched[folder] = true
		f.in.MendedOf(folder, "watch")
	case errors.Is(err, os.ErrNotExist) || strings.ContainsAny(folder, "*?["): // found again with the files in it
		f.in.MendedOf(folder, "watch")
	default:
		f.in.TroubleOf(folder, "watch", fmt.Errorf("there are no notifications of changes in %s; its files are checked once a second: %w", folder, err))
	}
}

func (f *source) start(ctx context.Context, path, pattern string, starting bool) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		f.watch(filepath.Dir(real))
	}
	f.watch(filepath.Dir(path))
	began := f.began[pattern]
	began.skip = began.skip && starting
	one := f.newFamily(path, began)
	one.member = f.in.Join(path) // before another reads
	f.families[path] = one
	f.running.Go(func() { one.run(ctx) })
}
