package yamlfile

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// A Value is one value of a document with its place. It is valid only during Decode.
type Value struct {
	d            *decoder
	node         *yaml.Node
	file         string
	line, column int // of a part of a scalar's text; 0 is where the value begins
}

// A Pair is one key of a map and its value.
type Pair struct {
	Name  string
	Key   Value // the place of the key itself
	Value Value
}

// Null reports that there is no value.
func (v Value) Null() bool { return v.node.Kind == yaml.ScalarNode && v.node.ShortTag() == "!!null" }

// Scalar returns a scalar's text as it was written, without quotes and with variables replaced; ok is false for lists,
// maps and nothing.
func (v Value) Scalar() (text string, ok bool) {
	if v.node.Kind != yaml.ScalarNode || v.Null() {
		return "", false
	}
	return v.d.expand(v), true
}

// Text returns the text of the value. Anything else is a fault, and returns "".
func (v Value) Text() string {
	if reason := v.notText(); reason != "" {
		v.Faultf(reason, "%s where text is expected", v.Found())
		return ""
	}
	text, _ := v.Scalar()
	return text
}

// Line returns the line of the value.
func (v Value) Line() int { return v.node.Line + v.d.lines }

// Quoted reports that the value is text in quotes or a block, which YAML uses unchanged.
func (v Value) Quoted() bool {
	const plain = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	return v.node.Kind == yaml.ScalarNode && v.node.Style&plain != 0
}

// Comment returns the comment after the value on its line, with its #.
func (v Value) Comment() string { return v.node.LineComment }

// List returns a list's elements; ok is false for anything else.
func (v Value) List() (elements []Value, ok bool) {
	if v.node.Kind != yaml.SequenceNode {
		return nil, false
	}
	for _, node := range v.node.Content {
		elements = append(elements, v.child(node))
	}
	return elements, true
}

// OneOrMore returns the elements of a list, and anything else as the only element.
func (v Value) OneOrMore() []Value {
	if elements, ok := v.List(); ok {
		return elements
	}
	return []Value{v}
}

// Map returns a map's keys in the order of the file; ok is false for anything else. Keys given twice and keys that are
// not scalars are faults and left out.
func (v Value) Map() (pairs []Pair, ok bool) {
	if v.node.Kind != yaml.MappingNode {
		return nil, false
	}
	first := map[string]int{}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key := v.child(v.node.Content[i])
		name, ok := key.keyName()
		if !ok {
			continue
		}

		// The first one counts, so that errors under it are still reported.
		if line, twice := first[name]; twice {
			key.Faultf("leave one of them out", "%s is given twice, first at line %d", name, line)
			continue
		}

		first[name] = key.Line()
		pairs = append(pairs, Pair{name, key, v.child(v.node.Content[i+1])})
	}

	return pairs, true
}

func (v Value) keyName() (string, bool) {
	if v.node.Kind != yaml.ScalarNode {
		v.Faultf("a key is a plain word", "%s where a key is expected", v.Found())
		return "", false
	}
	if v.node.ShortTag() == "!!merge" {
		v.Faultf("write the keys out, or name a value with &name and repeat it with *name", "<< (merging maps) is not read")
		return "", false
	}
	return v.node.Value, true
}

// Key returns the value under a key of a map, or the map itself when the key is missing: a good place for a fault about
// it.
func (v Value) Key(name string) Value {
	for i := 0; v.node.Kind == yaml.MappingNode && i+1 < len(v.node.Content); i += 2 {
		if v.node.Content[i].Value == name {
			return v.child(v.node.Content[i+1])
		}
	}
	return v
}

// Given reports whether a map has a key, with or without a value.
func (v Value) Given(name string) bool { return v.Key(name).node != v.node }

// Has reports whether a map has a key with a value.
func (v Value) Has(name string) bool {
	under := v.Key(name)
	return under.node != v.node && !under.Null()
}

// Faulty reports whether a fault was found in the value or anywhere under it.
func (v Value) Faulty() bool {
	return len(v.d.faulty) > 0 && v.d.anyFaulty(v.node, map[*yaml.Node]bool{})
}

// Faultf adds a fault at the value's place.
func (v Value) Faultf(remedy, format string, args ...any) {
	if v.d.faulty == nil {
		v.d.faulty = map[*yaml.Node]bool{}
	}
	v.d.faulty[v.node] = true
	v.d.faults = append(v.d.faults, v.fault(remedy, format, args))
}

// Fault adds an error as a fault at the value's place. The text after its first semicolon is the remedy.
func (v Value) Fault(err error) {
	f := Fault{}.Of(err)
	v.Faultf(f.Remedy, "%s", f.What)
}

// Warnf adds a warning at the value's place.
func (v Value) Warnf(remedy, format string, args ...any) {
	if v.d.warnings != nil {
		*v.d.warnings = append(*v.d.warnings, v.fault(remedy, format, args))
	}
}

// login is a part of a text that may have a password.
var login = regexp.MustCompile(`(://)[^\s"]*@|(password=)[^\s"&]*`)

func (v Value) fault(remedy, format string, args []any) Fault {
	hidden := func(text string) string { return login.ReplaceAllString(text, "$1$2***") }
	f := v.Place()
	f.What, f.Remedy = hidden(fmt.Sprintf(format, args...)), hidden(remedy)
	return f
}

// Place returns the place of the value, as a fault without a text.
func (v Value) Place() Fault {
	f := Fault{File: v.file, Line: v.node.Line, Column: v.node.Column}
	if v.line > 0 {
		f.Line, f.Column = v.line, v.column
	}
	if v.file == v.d.file && f.Line > 0 {
		f.Line += v.d.lines
		f.Column += v.d.columns
	}
	return f
}

// At returns the value with the place of a line and column (both from 1) of its text. It returns just the value when
// the text in the file differs from the value, as with escapes.
func (v Value) At(line, column int) Value {
	texts := strings.Split(v.node.Value, "\n")
	if v.node.Kind != yaml.ScalarNode || line < 1 || line > len(texts) || v.node.Line < 1 {
		return v
	}

	// Only a literal block, or a text on one line, stands in the file as it is.
	text, row, from := texts[line-1], v.node.Line, v.node.Column
	switch {
	case v.node.Style&yaml.LiteralStyle != 0:
		row, from = row+line, 1
	case len(texts) > 1:
		return v
	}

	if row > len(v.d.source) || text == "" {
		return v
	}
	before, after := rest(yaml.Mark{Line: row, Column: from}, v.d.source)
	at := strings.Index(after, text)
	if at < 0 {
		return v
	}

	v.line, v.column = row, utf8.RuneCountInString(before)+utf8.RuneCountInString(after[:at])+column
	return v
}

// Found describes the value, in words that fit before "where … is expected".
func (v Value) Found() string {
	switch {
	case v.node.Kind == yaml.SequenceNode:
		return "a list found"
	case v.node.Kind == yaml.MappingNode:
		return "a map found"
	case v.Null():
		return "nothing found"
	}
	return fmt.Sprintf("%s found", shown(v.node))
}

// Clip shortens a text to fit on the line of a fault.
func Clip(text string) string {
	const maxBytes = 60
	if len(text) <= maxBytes {
		return text
	}
	return strings.ToValidUTF8(text[:maxBytes], "") + "…"
}

// shown returns a scalar as its reader knows it.
func shown(n *yaml.Node) string {
	text := Clip(n.Value)
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		return fmt.Sprintf("the text %q", text)
	}

	switch n.ShortTag() {
	case "!!int", "!!float":
		return "the number " + text
	case "!!bool":
		return "the boolean " + text
	case "!!timestamp":
		return "the date " + text
	}

	return fmt.Sprintf("%q", text)
}

func (v Value) child(node *yaml.Node) Value {
	child := v.d.value(node)
	if child.file == v.d.file {
		child.file = v.file
	}
	return child
}
