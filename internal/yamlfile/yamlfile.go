// Package yamlfile reads YAML files strictly: every fault is found at once, each with its place and its remedy.
//
// Decode walks the document's nodes together with the Go value that they fill. Struct fields are named by their
// `yaml:"name"` tag (fields without one are not read, an embedded struct's fields are its holder's); fields that a file
// leaves out keep their values, so set defaults before. Unknown keys, keys given twice, values of another type and
// unset variables are faults; none of them stops the reading. Only a document that is not YAML does, and the fault then
// suggests what its author most likely meant.
//
// A type with the method FromYAML(Value) reads itself. The method Validate(Value) of a struct is called after all its
// fields are read, even when some of them are faulty (Value.Faulty tests that).
//
// Where text is wanted, a number, a boolean or a date must be in quotes, because other programs that handle the file
// would read it differently. A key without a value counts as left out where a section, a list or a map is expected, so a
// section may be commented out line by line.
//
// The package opens no files and reads no environment (see Env). A document that expands to more than a million values is
// refused, so aliases of aliases cannot use up the memory. It has no state and starts no goroutines.
package yamlfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// A Fault is one problem in a file, with its remedy.
type Fault struct {
	File   string
	Line   int    // 1 is the first; 0 is the entire file
	Column int    // 1 is the first; 0 is the entire line
	What   string // the problem, with the words at that place
	Remedy string // the correct form; may be empty
}

// String formats the fault like a compiler's: "rules.yaml:3:5: what; remedy".
func (f Fault) String() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d", f.Line)
		if f.Column > 0 {
			fmt.Fprintf(&b, ":%d", f.Column)
		}
	}

	if b.Len() > 0 {
		b.WriteString(": ")
	}
	b.WriteString(f.What)
	if f.Remedy != "" {
		b.WriteString("; " + f.Remedy)
	}

	return b.String()
}

// Of returns the fault at the place of f with an error's text. The text after its first semicolon is the remedy.
func (f Fault) Of(err error) Fault {
	f.What, f.Remedy, _ = strings.Cut(err.Error(), "; ")
	return f
}

// Faults are all faults of one reading. A Faults with elements is an error; Err returns it.
type Faults []Fault //nolint:errname // it is what is read first and an error second

// Error returns one fault per line.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.String()
	}
	return strings.Join(lines, "\n")
}

// Err returns nil when there are no faults, and else the faults.
func (f Faults) Err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// An Option changes how Decode reads.
type Option func(*decoder)

// Env replaces ${NAME} in values (not in keys) by the result of lookup; a name that lookup does not know is a fault.
// The inserted text is never parsed as YAML. $${NAME} stands for ${NAME} itself.
func Env(lookup func(name string) (value string, ok bool)) Option {
	return func(d *decoder) { d.env = lookup }
}

// Warnings collects the warnings of Value.Warnf. Without it warnings are dropped.
func Warnings(into *Faults) Option {
	return func(d *decoder) { d.warnings = into }
}

// Within places the data inside another file: lines are counted from line, and columns from column (0 adds nothing), so
// that places are those of the outer file.
func Within(line, column int) Option {
	return func(d *decoder) { d.lines, d.columns = line, column }
}

// Override puts text, read as YAML, at a dotted path ("aggregator.hot_keys", "collector.sources.0.late") in place of
// the file's value. Faults in it have origin as their file.
func Override(path, text, origin string) Option {
	return func(d *decoder) { d.overrides = append(d.overrides, override{path, text, origin}) }
}

// Decode reads one YAML document into the target of into, and returns all its faults in the order of their places.
// After a fault into is only partly filled and must not be used.
func Decode(file string, data []byte, into any, opts ...Option) Faults {
	d := &decoder{file: file, origins: map[*yaml.Node]string{}}
	for _, opt := range opts {
		opt(d)
	}
	if root := d.document(data); root != nil {
		d.override(root)
		d.value(root).Decode(into)
	}
	if d.warnings != nil {
		*d.warnings = d.warnings.Sorted()
	}
	return d.faults.Sorted()
}

// Sorted returns the faults in the order of their places, without duplicates, which faults in an alias's target cause.
func (f Faults) Sorted() Faults {
	faults := slices.Clone(f)
	slices.SortStableFunc(faults, func(a, b Fault) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line, a.Column-b.Column)
	})
	seen := map[Fault]bool{}
	return slices.DeleteFunc(faults, func(f Fault) bool {
		twice := seen[f]
		seen[f] = true
		return twice
	})
}
