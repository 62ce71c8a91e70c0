package yamlfile

import (
	"encoding"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v4"

	"weir/internal/nearest"
)

// Bounds of a document's expansion by aliases, and of its depth.
const (
	maxValues = 1_000_000
	maxDepth  = 100
)

type decoder struct {
	file           string
	source         []string // the file's lines
	lines, columns int      // added to places
	env            func(string) (string, bool)
	overrides      []override
	origins        map[*yaml.Node]string // the files of overriding nodes
	faults         Faults
	warnings       *Faults
	faulty         map[*yaml.Node]bool
	values         int // read so far
	depth          int // of the value being read
}

// A type that reads itself has this method on its pointer.
type reader interface{ FromYAML(Value) }

// A struct that checks itself has this method on its pointer.
type validator interface{ Validate(Value) }

// value wraps a node, and follows aliases.
func (d *decoder) value(node *yaml.Node) Value {
	file := d.file
	if origin, ok := d.origins[node]; ok {
		file = origin
	}
	for node.Kind == yaml.AliasNode && node.Alias != nil {
		node = node.Alias
	}
	return Value{d: d, node: node, file: file}
}

// anyFaulty reports whether a node or its descendants have faults; seen stops it at an alias of itself.
func (d *decoder) anyFaulty(node *yaml.Node, seen map[*yaml.Node]bool) bool {
	if node == nil || seen[node] {
		return false
	}
	seen[node] = true
	if d.faulty[node] || d.anyFaulty(node.Alias, seen) {
		return true
	}

	for _, child := range node.Content {
		if d.anyFaulty(child, seen) {
			return true
		}
	}

	return false
}

// Decode reads the value into the target of into, and reports whether it had no fault.
func (v Value) Decode(into any) bool {
	before := len(v.d.faults)
	v.into(reflect.ValueOf(into).Elem())
	return len(v.d.faults) == before
}

func (v Value) into(target reflect.Value) {
	if v.d.tooMuch(v) {
		return
	}
	v.d.depth++
	defer func() { v.d.depth-- }()
	switch self := target.Addr().Interface().(type) {
	case reader:
		self.FromYAML(v)
	case encoding.TextUnmarshaler:
		v.intoUnmarshaler(self)
	default:
		v.intoKind(target)
	}
}

// tooMuch counts values, and reports when a document exceeds its bounds; then nothing more is read.
func (d *decoder) tooMuch(v Value) bool {
	switch d.values++; {
	case d.values > maxValues+1:
	case d.values == maxValues+1:
		v.Faultf("repeat less with *name", "the document has more than %d values", maxValues)
	case d.depth == maxDepth:
		v.Faultf("a value cannot contain itself", "values stand in one another more than %d deep", maxDepth)
		d.values = maxValues + 1
	}
	return d.values > maxValues
}

func (v Value) intoUnmarshaler(self encoding.TextUnmarshaler) {
	text, ok := v.Scalar()
	if !ok {
		v.Faultf("", "%s where one value is expected", v.Found())
		return
	}
	if err := self.UnmarshalText([]byte(text)); err != nil {
		v.Faultf("", "%v", err)
	}
}

func (v Value) intoKind(target reflect.Value) {
	switch target.Kind() {
	case reflect.Struct:
		v.intoStruct(target)
	case reflect.Slice:
		v.intoSlice(target)
	case reflect.Map:
		v.intoMap(target)
	case reflect.Pointer:
		v.intoPointer(target)
	default:
		v.intoScalar(target)
	}
}

func (v Value) intoStruct(target reflect.Value) {
	fields := map[string]reflect.Value{}
	var names []string
	collect(target, fields, &names)
	pairs, ok := v.Map()
	if !ok && !v.Null() {
		v.Faultf("known keys: "+strings.Join(names, ", "), "%s where a map is expected", v.Found())
	}

	for _, pair := range pairs {
		if field, known := fields[pair.Name]; known {
			pair.Value.into(field)
			continue
		}
		pair.Key.Faultf(nearest.Suggest(pair.Name, names, "known keys: "), "unknown key %s", pair.Name)
	}

	// After all fields, and also after faults in them: Validate asks Faulty where that matters.
	if self, ok := target.Addr().Interface().(validator); ok {
		self.Validate(v)
	}
}

// collect finds the fields of a struct by name, including those of embedded structs.
func collect(target reflect.Value, fields map[string]reflect.Value, names *[]string) {
	for i := range target.NumField() {
		field := target.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		switch {
		case field.Anonymous && name == "" && field.Type.Kind() == reflect.Struct:
			collect(target.Field(i), fields, names)
		case name != "" && name != "-":
			fields[name] = target.Field(i)
			*names = append(*names, name)
		}
	}
}

// Names returns the keys that Decode knows for a struct, or for the struct that sample points to.
func Names(sample any) []string {
	target := reflect.New(reflect.Indirect(reflect.ValueOf(sample)).Type()).Elem()
	var names []string
	collect(target, map[string]reflect.Value{}, &names)
	return names
}

func (v Value) intoSlice(target reflect.Value) {
	if v.Null() {
		return
	}
	elements, ok := v.List()
	if !ok {
		v.Faultf(listRemedy(v), "%s where a list is expected", v.Found())
		return
	}

	slice := reflect.MakeSlice(target.Type(), len(elements), len(elements))
	for i, element := range elements {
		if element.Null() {
			element.Faultf("write a value after the dash, or leave it out", "nothing found where an element of the list is expected")
			continue
		}
		element.into(slice.Index(i))
	}

	target.Set(slice)
}

func listRemedy(v Value) string {
	if text, ok := v.Scalar(); ok && !strings.ContainsAny(text, "[]{},:#") {
		return "write [" + text + "]"
	}
	return "write [one, another], or a line with a dash for each"
}

func (v Value) intoMap(target reflect.Value) {
	if v.Null() {
		return
	}
	pairs, ok := v.Map()
	if !ok {
		v.Faultf("write {key: value}", "%s where a map is expected", v.Found())
		return
	}

	made := reflect.MakeMap(target.Type())
	for _, pair := range pairs {
		element := reflect.New(target.Type().Elem()).Elem()
		pair.Value.into(element)
		made.SetMapIndex(reflect.ValueOf(pair.Name).Convert(target.Type().Key()), element)
	}

	target.Set(made)
}

func (v Value) intoPointer(target reflect.Value) {
	if v.Null() {
		return
	}
	if target.IsNil() {
		target.Set(reflect.New(target.Type().Elem()))
	}
	v.into(target.Elem())
}
