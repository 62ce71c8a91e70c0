package config

import (
	"fmt"
	"os"

	"weir/internal/yamlfile"
)

// Options say what to read besides the file.
type Options struct {
	// File is the path of the configuration; empty looks in the usual places.
	File string
	// Default is what is read where File is empty and none is found; nil is a file that says nothing.
	Default []byte
	// Set are settings of the command line, each key=value; they beat the environment's.
	Set []string
	// Environ is the environment as os.Environ gives it: WEIR_SECTION_KEY beats the file, and ${NAME} within the
	// file is replaced.
	Environ []string
	// Beside are files that stand beside the configuration but not on the disk, as the other keys of a Kubernetes
	// ConfigMap do: they are taken wherever a file of their name is meant. Rules among them are not read.
	Beside []yamlfile.Inner
	// NoRules leaves files of rules unread, for who needs none: their faults are not told, and RuleSet is nil. Rules
	// within the configuration are a part of it, and their faults its own.
	NoRules bool
	// Within are the places of the file in another that holds it.
	Within yamlfile.Option
}

// Load finds and reads the configuration. The error is Faults when the file was read and is wrong.
func Load(o Options) (*Config, yamlfile.Faults, error) {
	if o.File == "" {
		o.File = find()
	}
	if o.File == "" {
		return Read(o.Default, o)
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
	c := Default()
	c.File, c.reading = o.File, newReading(o)
	options := []yamlfile.Option{yamlfile.Env(c.reading.lookup), yamlfile.Warnings(&c.reading.warnings)}
	if o.Within != nil {
		options = append(options, o.Within)
	}
	options = append(options, c.reading.variables()...)
	options = append(options, c.reading.settings(o.Set)...)
	faults := yamlfile.Decode(o.File, data, c, options...)
	read := c.reading
	c.reading = reading{} // the environment may hold secrets
	return c, read.warnings, append(read.faults, faults...).Err()
}
