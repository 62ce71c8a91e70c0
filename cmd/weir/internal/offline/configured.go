package offline

import (
	"cmp"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/internal/config"
	"weir/cmd/internal/exit"
	"weir/internal/regular"
	"weir/pkg/backtest"
	"weir/pkg/request"
)

// configured returns the configuration that the arguments and flags leave things to; nil when they need none.
func (b *backtestCommand) configured(files []string) (*config.Config, error) {
	file := b.file
	ofSource := slices.ContainsFunc(files, func(text string) bool { return strings.HasPrefix(text, "source:") })
	if file == "" && (len(b.rules) == 0 && len(b.limits) == 0 || ofSource) {
		file = config.Find()
	}
	if file == "" {
		return nil, nil
	}

	// Mode shadow is for the parts: a backtest shows what the rules would refuse.
	settings, _, err := config.Load(config.Options{File: file, Environ: os.Environ(), Set: []string{"mode=enforce"}, NoRules: len(b.rules)+len(b.limits) > 0})
	return settings, err
}

// rulesOf returns the paths and globs of the rules that are used.
func (b *backtestCommand) rulesOf(settings *config.Config) []string {
	if settings == nil || len(b.rules) > 0 || len(b.limits) > 0 {
		return b.rules
	}
	var all []string
	for _, pattern := range settings.Rules.Patterns {
		if !filepath.IsAbs(pattern) {
			pattern = filepath.Join(filepath.Dir(settings.File), pattern)
		}
		all = append(all, pattern)
	}
	return all
}

// readAs takes what the configuration says about reading the logs, unless a flag says it: the client, and the format of
// the source that has the files.
func (b *backtestCommand) readAs(c *cobra.Command, settings *config.Config, files []string, to *backtest.Config) error {
	given := func(flags ...string) bool {
		for _, flag := range flags {
			if c.Flags().Changed(flag) {
				return true
			}
		}
		return false
	}

	if !given("header") {
		to.Options.Header = settings.Client.Header
	}
	if !given("trusted-proxy") {
		trusted, faults := settings.Client.TrustedProxies.Read(func(name string) (string, []byte, error) {
			data, err := regular.ReadFile(name)
			return name, data, err
		})
		if len(faults) > 0 {
			return exit.Wrong(faults)
		}
		to.Client = request.NewClient(trusted)
	}

	if given("format", "envelope", "line", "zone", "field") {
		return nil
	}
	source, err := sourceOf(settings.Collector.Sources, files)
	if source == nil || err != nil {
		return err
	}
	to.Envelope, to.Format = source.Envelope, source.Format
	to.Options.Zone, to.Options.Fields, to.Options.Line, to.Options.Stderr = source.Zone.Location, source.LineFields(), source.LineKey(), source.NamesStream()
	to.Dedupe = backtest.Dedupe{By: source.Dedupe.By, Within: time.Duration(source.Dedupe.Within), Most: source.Dedupe.Values}
	to.Only, err = source.Wanted()
	return err
}

// sourceOf returns the source that reads the files, or the only source; nil when none is known to fit.
func sourceOf(sources []config.Source, files []string) (*config.Source, error) {
	var of *config.Source
	first := ""
	for _, file := range files {
		for i := range sources {
			one := &sources[i]
			if !reads(one, file) {
				continue
			}
			if of != nil && !alike(of, one) {
				return nil, exit.Wrongf("%s is of the source %s, and %s of %s, which are read in other ways; name the files of one source, or give --format", first, of.Name, file, one.Name)
			}
			of, first = one, cmp.Or(first, file)
			break
		}
	}
	if of == nil && len(sources) == 1 {
		of = &sources[0]
	}
	return of, nil
}

// reads reports whether a file is one of a source's, rotated ones included, or a topic or another server's log is.
func reads(s *config.Source, file string) bool {
	if strings.HasPrefix(file, topicScheme) {
		t, err := parseTopic(file, time.Now())
		return err == nil && s.ReadsTopic(t.topic)
	}
	if isServed(file) {
		return servedBy(file, s)
	}
	path, err := filepath.Abs(file)
	if err != nil {
		return false
	}
	for _, pattern := range s.File {
		pattern, err := filepath.Abs(pattern)
		if err != nil {
			continue
		}
		for name := path; ; {
			if matched, _ := filepath.Match(pattern, name); matched {
				return true
			}
			end := strings.LastIndexAny(name, ".-_")
			if end <= strings.LastIndexByte(name, filepath.Separator)+1 {
				break
			}
			name = name[:end]
		}
	}
	return false
}

// alike reports whether two sources read lines in the same way.
func alike(a, b *config.Source) bool {
	return a.Envelope == b.Envelope && a.Format == b.Format && a.LineKey() == b.LineKey() && a.Zone.String() == b.Zone.String() && a.Only == b.Only && a.Dedupe == b.Dedupe && reflect.DeepEqual(a.Fields, b.Fields)
}
