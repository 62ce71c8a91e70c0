// Package yamlfile reads YAML files strictly: every fault is found at once, each with its place and its remedy.
//
// Decode walks the document's nodes beside the Go value they are meant for. Struct fields are named by their
// `yaml:"name"` tag (fields without one are not read, an embedded struct's fields are its holder's); what a
// file leaves out keeps the value it had, so defaults are set before. Unknown keys, keys given twice, values of
// another type and unset variables are faults; none of them stops the reading. Only what is no YAML at all does,
// and the fault then says what the reader most likely meant.
//
// A type with the method FromYAML(Value) reads itself. A struct with the method Validate(Value) is asked after
// all its fields are read, and is asked too when some of them are faulty (Value.Faulty tells which).
//
// Text is text: a number, a boolean or a date where text is wanted must stand in quotes, because other programs
// that handle the file would read it otherwise. A key without a value counts as left out where a section, a list
// or a map is wanted, so a section may be commented out line by line.
//
// The package reads no files and no environment (see Env). A document that expands to more than a million
// values is refused, so aliases of aliases cannot use up the memory. It has no state and starts no goroutines.
package yamlfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// A Fault is one thing wrong in a file, told so that its reader can mend it.
type Fault struct {
	File   string
	Line   int    // 1 is the first; 0 is the file as a whole
	Column int    // 1 is the first; 0 is the line as a whole
	What   string // what is wrong, with the words that stand there
	Remedy string // what would be right; may be empty
}

// String is the fault as compilers print theirs: "rules.yaml:3:5: what; remedy".
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

// Faults are all faults of one reading. It is an error when it is not empty; Err makes one.
type Faults []Fault //nolint:errname // it is what is read first and an error second

// Error is one fault a line.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.String()
	}
	return strings.Join(lines, "\n")
}

// Err is nil when there are no faults, and else the faults.
func (f Faults) Err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// An Option changes how Decode reads.
type Option func(*decoder)

// Env replaces ${NAME} in values (not in keys) by what lookup returns; a name that lookup does not know is a
// fault. What is put in is text, never YAML. $${NAME} stands for ${NAME} itself.
func Env(lookup func(name string) (value string, ok bool)) Option {
	return func(d *decoder) { d.env = lookup }
}

// Warnings collects what Value.Warnf says. Without it warnings are dropped.
func Warnings(into *Faults) Option {
	return func(d *decoder) { d.warnings = into }
}

// Within says that the data stands inside another file: lines are counted from line, and columns from column
// (0 adds nothing), so that places are those of the outer file.
func Within(line, column int) Option {
	return func(d *decoder) { d.lines, d.columns = line, column }
}

// Override puts text, read as YAML, at a dotted path ("aggregator.hot_keys", "collector.sources.0.late") in
// place of what the file says there. Faults in it are told with origin as their file.
func Override(path, text, origin string) Option {
	return func(d *decoder) { d.overrides = append(d.overrides, override{path, text, origin}) }
}

// Decode reads one YAML document into what into points to, and returns all that is wrong with it in the order
// of their places. into is then partly filled and must not be used.
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

// Sorted is the faults in the order of their places, without those that are there twice, as faults in an alias's
// target are.
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
