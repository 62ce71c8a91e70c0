package config

import (
	"fmt"

	"weir/internal/regular"
	"weir/internal/yamlfile"
	"weir/pkg/geoip"
)

// Options contain the file to read and the settings that replace its own.
type Options struct {
	// File is the path of the configuration; empty means the first of the usual paths that exists.
	File string
	// Default is read when File is empty and no usual path exists; nil is an empty file.
	Default []byte
	// Set are settings of the command line, each key=value. They take precedence over the environment.
	Set []string
	// Environ is the environment as os.Environ returns it: WEIR_SECTION_KEY takes precedence over the file, and ${NAME}
	// within the file is replaced.
	Environ []string
	// Siblings are files next to the configuration that are not on the disk: the other keys of a Kubernetes ConfigMap.
	// They are used for every path with their name. Rules among them are not read.
	Siblings []yamlfile.Inner
	// NoRules leaves files of rules unread: their faults are not reported, and RuleSet is nil. Rules within the
	// configuration are still read as a part of it.
	NoRules bool
	// ToAsk is for programs that are no part: the file of the key of secret rules may be missing.
	ToAsk bool
	// Opened remembers the databases that were read before; nil reads all of them.
	Opened *geoip.Opened
	// Within maps places in the file to places in the ConfigMap that contains it.
	Within yamlfile.Option
}

// Load finds and reads the configuration. The error is Faults when the file was read and is wrong.
func Load(o Options) (*Config, yamlfile.Faults, error) {
	if o.File == "" {
		o.File = Find()
	}
	if o.File == "" {
		return Read(o.Default, o)
	}
	data, err := regular.ReadFile(o.File)
	if err != nil {
		return nil, nil, fmt.Errorf("read the configuration: %w", err)
	}
	return Read(data, o)
}

// Read reads a configuration that is in memory already; o.File is its path, or empty when there is no file. It returns
// warnings and, as the error, faults.
func Read(data []byte, o Options) (*Config, yamlfile.Faults, error) {
	c := Default()
	c.File, c.loader = o.File, newLoader(o)
	options := []yamlfile.Option{yamlfile.Env(c.loader.lookup), yamlfile.Warnings(&c.loader.warnings)}
	if o.Within != nil {
		options = append(options, o.Within)
	}
	options = append(options, c.loader.variables()...)
	options = append(options, c.loader.settings(o.Set)...)
	faults := yamlfile.Decode(o.File, data, c, options...)
	l := c.loader
	c.loader = loader{} // the environment may hold secrets
	return c, l.warnings, append(l.faults, faults...).Err()
}
