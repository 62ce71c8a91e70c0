package yamlfile

import (
	"bytes"
	"strings"

	"go.yaml.in/yaml/v4"
)

// An Inner is a file that is text inside another, as in a Kubernetes ConfigMap.
type Inner struct {
	Name string // its key in the ConfigMap's data
	File string // the name to use in errors
	Data []byte
	// The arguments of Within, so that places are those of the outer file. Both are 0 when they are not known exactly,
	// because the text is in quotes; places are then those of the inner file.
	Line, Column int
}

// Within returns the option that reports the places of the outer file.
func (i Inner) Within() Option { return Within(i.Line, i.Column) }

// ConfigMap finds the files in the Kubernetes ConfigMaps among the documents of data and in the Lists among them, in
// their order. ok is false when data has no ConfigMap, or is not YAML.
func ConfigMap(file string, data []byte) (files []Inner, ok bool) {
	loader, err := yaml.NewLoader(bytes.NewReader(data), yaml.WithV4Defaults())
	if err != nil {
		return nil, false
	}

	d := decoder{file: file, source: strings.Split(string(data), "\n")}

	// A manifest that is partly wrong still shows the files before the mistake: the caller finds it when it reads them.
	for {
		var document yaml.Node
		if err := loader.Load(&document); err != nil || len(document.Content) == 0 {
			return files, ok
		}

		for _, object := range objects(d.value(document.Content[0])) {
			if kindOf(object) != "ConfigMap" {
				continue
			}
			ok = true
			pairs, _ := object.Key("data").Map()
			for _, pair := range pairs {
				if text, isText := pair.Value.Scalar(); isText {
					files = append(files, inner(pair, text))
				}
			}
		}
	}
}

// objects returns those of a List, or the one object of a document.
func objects(root Value) []Value {
	if kindOf(root) != "List" {
		return []Value{root}
	}
	items, _ := root.Key("items").List()
	return items
}

func kindOf(object Value) string {
	if object.node.Kind != yaml.MappingNode || !object.Given("kind") {
		return ""
	}
	kind, _ := object.Key("kind").Scalar()
	return kind
}

func inner(pair Pair, text string) Inner {
	i := Inner{Name: pair.Name, File: pair.Value.file, Data: []byte(text)}
	if line := firstLine(text); line > 0 && pair.Value.node.Style&yaml.LiteralStyle != 0 {
		if place := pair.Value.At(line, 1); place.line > 0 {
			i.Line, i.Column = place.line-line, place.column-1
			return i
		}
	}
	i.File += "[" + pair.Name + "]"
	return i
}

// firstLine returns the number, from 1, of the first line of text that is not blank; 0 when all are.
func firstLine(text string) int {
	for i, line := range strings.Split(text, "\n") {
		if strings.TrimSpace(line) != "" {
			return i + 1
		}
	}
	return 0
}
