package yamlfile

import (
	"encoding/json"
	"slices"

	"go.yaml.in/yaml/v4"
)

// JSON returns the value and everything under it as a document of its own, in one line, with variables replaced. Decode
// reads the same from it as from the value.
func (v Value) JSON() []byte { return v.appendJSON(nil) }

func (v Value) appendJSON(b []byte) []byte {
	switch v.node.Kind {
	case yaml.SequenceNode:
		elements, _ := v.List()
		b = append(b, '[')
		for i, element := range elements {
			b = element.appendJSON(comma(b, i))
		}
		return append(b, ']')
	case yaml.MappingNode:
		pairs, _ := v.Map()
		b = append(b, '{')
		for i, pair := range pairs {
			b = append(appendJSONText(comma(b, i), pair.Name), ':', ' ')
			b = pair.Value.appendJSON(b)
		}
		return append(b, '}')
	}

	text, ok := v.Scalar()
	switch {
	case !ok:
		return append(b, "null"...)
	// Text in quotes stays text: "10" is not 10.
	case !v.Quoted() && slices.Contains([]string{"!!int", "!!float", "!!bool"}, v.node.ShortTag()):
		return append(b, text...)
	}

	return appendJSONText(b, text)
}

func comma(b []byte, index int) []byte {
	if index > 0 {
		return append(b, ", "...)
	}
	return b
}

func appendJSONText(b []byte, text string) []byte {
	quoted, _ := json.Marshal(text) // a text can always be encoded
	return append(b, quoted...)
}
