package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"weir/internal/yamlfile"
)

// Options say what to read besides the file.
type Options struct {
	// File is the path of the configuration; empty looks in the usual places.
	File string
	// Set are settings of the command line, each key=value; they beat the environment's.
	Set []string
	// Environ is the environment as os.Environ gives it: WEIR_SECTION_KEY beats the file, and ${NAME} within the
	// file is replaced.
	Environ []string
	// Beside are files that stand beside the configuration but not on the disk, as the other keys of a Kubernetes
	// ConfigMap do: they are taken wherever a file of their name is meant. Rules among them are not read.
	Beside []yamlfile.Inner
	// Within are the places of the file in another that holds it.
	Within yamlfile.Option
}

// Load finds and reads the configuration. The error is Faults when the file was read and is wrong.
func Load(o Options) (*Config, yamlfile.Faults, error) {
	if o.File == "" {
		o.File = find()
	}
	if o.File == "" {
		return Read(nil, o)
	}
	data, err := os.ReadFile(o.File)
	if err != nil {
		return nil, nil, fmt.Errorf("read the configuration: %w", err)
	}
	return Read(data, o)
}

// Read reads a configuration that is in memory already; o.File says where it came from, or is empty where there
// is no file. It returns warnings beside the faults.
func Read(data []byte, o Options) (*Config, yamlfile.Faults, error) {
	reading := newReading(o)
	c := Default()
	c.File, c.reading = o.File, reading
	options := []yamlfile.Option{yamlfile.Env(reading.lookup), yamlfile.Warnings(&c.reading.warnings)}
	if o.Within != nil {
		options = append(options, o.Within)
	}
	for _, key := range Keys() {
		name := variable(key)
		if value, ok := reading.lookup(name); ok && value != "" && !strings.Contains(key, "[]") {
			options = append(options, yamlfile.Override(key, quoted(value), name))
		}
	}
	var faults yamlfile.Faults
	for _, setting := range o.Set {
		key, value, ok := strings.Cut(setting, "=")
		if !ok || key == "" {
			faults = append(faults, yamlfile.Fault{File: "--set " + setting, What: "a setting is a key, = and a value", Remedy: "write --set aggregator.hot_keys=10000"})
			continue
		}
		options = append(options, yamlfile.Override(key, quoted(value), "--set "+key))
	}
	faults = append(faults, yamlfile.Decode(o.File, data, c, options...)...)
	faults = append(faults, c.reading.faults...)
	return c, c.reading.warnings, faults.Err()
}

// quoted is a setting's value as YAML: an address such as [::1]:7421 would else be taken for a list.
func quoted(value string) string {
	if strings.HasPrefix(value, "[") && !strings.HasSuffix(value, "]") {
		return strconv.Quote(value)
	}
	return value
}

// variable is the name in the environment of a key: WEIR_AGGREGATOR_HOT_KEYS.
func variable(key string) string {
	return "WEIR_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// A reading is what is known while a configuration is read: where it stands and what stands around it.
type reading struct {
	name     string // of the file
	folder   string // of the file; empty is the working directory
	environ  map[string]string
	beside   []yamlfile.Inner
	warnings yamlfile.Faults
	faults   yamlfile.Faults // in other files than the configuration itself
}

func newReading(o Options) reading {
	r := reading{name: o.File, environ: map[string]string{}, beside: o.Beside}
	if o.File != "" {
		r.folder = filepath.Dir(o.File)
	}
	for _, entry := range o.Environ {
		name, value, _ := strings.Cut(entry, "=")
		r.environ[name] = value
	}
	return r
}

func (r *reading) lookup(name string) (string, bool) {
	value, ok := r.environ[name]
	return value, ok
}

// path makes a relative path one relative to the file. An empty one stays empty.
func (r *reading) path(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(r.folder, path)
}

// file reads a file that the configuration names by a path that is whole.
func (r *reading) file(path string) (string, []byte, error) {
	for _, inner := range r.beside {
		if inner.Name == filepath.Base(path) {
			return path, inner.Data, nil
		}
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s is not there", path)
	}
	return path, data, err
}

// has says whether there is a file.
func (r *reading) has(path string) bool {
	_, _, err := r.file(r.path(path))
	return err == nil
}

// besideAny says whether any of the patterns means a file that stands beside.
func (r *reading) besideAny(patterns []string) bool {
	for _, pattern := range patterns {
		for _, inner := range r.beside {
			if match, _ := filepath.Match(filepath.Base(pattern), inner.Name); match {
				return true
			}
		}
	}
	return false
}

// add keeps the faults of another file.
func (r *reading) add(err error) {
	var faults yamlfile.Faults
	if !errors.As(err, &faults) {
		faults = yamlfile.Faults{{What: err.Error()}}
	}
	for _, fault := range faults {
		if fault.File == "" {
			fault.File = r.name
		}
		r.faults = append(r.faults, fault)
	}
}
