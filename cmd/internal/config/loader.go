package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"weir/internal/nearest"
	"weir/internal/regular"
	"weir/internal/yamlfile"
	"weir/pkg/geoip"
)

// A loader contains the state of reading a configuration: its place, the environment and the faults so far.
type loader struct {
	name     string // of the file
	folder   string // of the file; empty is the working directory
	environ  map[string]string
	siblings []yamlfile.Inner
	noRules  bool
	toAsk    bool
	opened   *geoip.Opened
	warnings yamlfile.Faults
	faults   yamlfile.Faults // in other files than the configuration itself
}

func newLoader(o Options) loader {
	r := loader{name: o.File, environ: map[string]string{}, siblings: o.Siblings, noRules: o.NoRules, toAsk: o.ToAsk, opened: cmp.Or(o.Opened, &geoip.Opened{})}
	if o.File != "" {
		r.folder = filepath.Dir(o.File)
	}
	for _, entry := range o.Environ {
		name, value, _ := strings.Cut(entry, "=")
		r.environ[name] = value
	}
	return r
}

func (r *loader) lookup(name string) (string, bool) {
	value, ok := r.environ[name]
	return value, ok
}

// path resolves a path relative to the file. An empty path stays empty.
func (r *loader) path(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(r.folder, path)
}

// file reads a file of the configuration by its resolved path.
func (r *loader) file(path string) (string, []byte, error) {
	for _, inner := range r.siblings {
		if inner.Name == filepath.Base(path) {
			return path, inner.Data, nil
		}
	}
	data, err := regular.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s does not exist", path)
	}
	return path, data, err
}

// has reports whether a file exists.
func (r *loader) has(path string) bool {
	_, _, err := r.file(r.path(path))
	return err == nil
}

// isSibling reports whether any of the patterns matches a sibling.
func (r *loader) isSibling(patterns []string) bool {
	for _, pattern := range patterns {
		for _, inner := range r.siblings {
			if match, _ := filepath.Match(filepath.Base(pattern), inner.Name); match {
				return true
			}
		}
	}
	return false
}

// settings returns the settings of the command line.
func (r *loader) settings(set []string) (overrides []yamlfile.Option) {
	for _, setting := range set {
		key, value, ok := strings.Cut(setting, "=")
		if !ok || key == "" {
			r.faults = append(r.faults, yamlfile.Fault{File: "--set " + setting, What: "a setting is a key, = and a value", Remedy: "write --set aggregator.hot_keys=10000"})
			continue
		}
		overrides = append(overrides, yamlfile.Override(key, quoted(value), "--set "+key))
	}
	return overrides
}

// variables returns the settings of the environment, and warns of variables with a misspelled name.
func (r *loader) variables() (overrides []yamlfile.Option) {
	var known []string
	for _, key := range Keys() {
		name := variable(key)
		// A variable in a list has a number in its name, see elementKey.
		if strings.Contains(key, "[]") {
			continue
		}
		known = append(known, name)
		if value, ok := r.lookup(name); ok && value != "" {
			overrides = append(overrides, yamlfile.Override(key, quoted(value), name))
		}
	}

	for _, name := range slices.Sorted(maps.Keys(r.environ)) {
		if slices.Contains(known, name) {
			continue
		}
		if key := elementKey(name); key != "" && r.environ[name] != "" {
			overrides = append(overrides, yamlfile.Override(key, quoted(r.environ[name]), name))
		} else if key == "" {
			r.warnOfVariable(name, known)
		}
	}

	return overrides
}

// elementKey returns the key that a variable sets in an element of a list, or empty: WEIR_COLLECTOR_SOURCES_0_FORMAT sets
// collector.sources.0.format.
func elementKey(name string) string {
	for _, key := range Keys() {
		list, within, ok := strings.Cut(key, "[].")
		if !ok || strings.Contains(within, "[]") {
			continue
		}
		rest, ok := strings.CutPrefix(name, variable(list)+"_")
		number, last, more := strings.Cut(rest, "_")
		if _, err := strconv.ParseUint(number, 10, 16); ok && more && err == nil && "WEIR_"+last == variable(within) {
			return list + "." + number + "." + within
		}
	}
	return ""
}

// warnOfVariable warns of a variable with a misspelled name. It ignores WEIR_ENFORCER_PORT and WEIR_ENFORCER_SERVICE_HOST,
// which Kubernetes makes for a service with the name weir-enforcer.
func (r *loader) warnOfVariable(name string, known []string) {
	const prefix = "WEIR_"
	if !strings.HasPrefix(name, prefix) || strings.Contains(name, "_PORT") || strings.Contains(name, "_SERVICE_") {
		return
	}
	var words []string // without the prefix, which would make all names look similar
	for _, k := range known {
		words = append(words, strings.TrimPrefix(k, prefix))
	}
	if near := nearest.Word(strings.TrimPrefix(name, prefix), words); near != "" {
		r.warnings = append(r.warnings, yamlfile.Fault{File: name, What: "no setting has this name", Remedy: "did you mean " + prefix + near + "?"})
	}
}

// add keeps the faults of another file.
func (r *loader) add(err error) {
	var faults yamlfile.Faults
	if !errors.As(err, &faults) {
		faults = yamlfile.Faults{{What: err.Error()}}
	}
	for _, fault := range faults {
		fault.File = cmp.Or(fault.File, r.name)
		r.faults = append(r.faults, fault)
	}
}

// quoted returns a setting's value as YAML. Without quotes an address such as [::1]:7421 would be a list.
func quoted(value string) string {
	if strings.HasPrefix(value, "[") && !strings.HasSuffix(value, "]") {
		return strconv.Quote(value)
	}
	return value
}

// variable returns the environment's name of a key: WEIR_AGGREGATOR_HOT_KEYS.
func variable(key string) string {
	return "WEIR_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}
