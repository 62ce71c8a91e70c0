package rule

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"weir/internal/yamlfile"
)

func compiledSchema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("rules.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("rules.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// asJSON is a YAML node in the types of JSON.
func asJSON(n *yaml.Node) any {
	switch n.Kind {
	case yaml.DocumentNode:
		return asJSON(n.Content[0])
	case yaml.AliasNode:
		return asJSON(n.Alias)
	case yaml.SequenceNode:
		list := []any{}
		for _, child := range n.Content {
			list = append(list, asJSON(child))
		}
		return list
	case yaml.MappingNode:
		object := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			object[n.Content[i].Value] = asJSON(n.Content[i+1])
		}
		return object
	default:
		return scalarAsJSON(n)
	}
}

func scalarAsJSON(n *yaml.Node) any {
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		return n.Value == "true"
	case "!!int", "!!float":
		return json.Number(n.Value)
	}
	return n.Value
}

func valid(schema *jsonschema.Schema, file string) (ok, isYAML bool) {
	var node yaml.Node
	if err := yaml.Unmarshal([]byte(file), &node); err != nil || len(node.Content) == 0 {
		return false, false
	}
	return schema.Validate(asJSON(&node)) == nil, true
}

func TestSchemaTakesTheExample(t *testing.T) {
	example, err := os.ReadFile("testdata/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if ok, _ := valid(compiledSchema(t), string(example)); !ok {
		t.Error("the example is refused")
	}
}

// Checks that need more than a schema can express: expressions, other files, order, sums of limits, and YAML's own
// conversions.
var beyondSchema = []string{
	"no rules", "nothing", "only a comment", "limits that decide nothing", "expressions", "an inline rule on the response", "an expression of several lines",
	"an expression cut by a comment", "keys given twice", "two documents", "merged maps", "repeated values", "a secret without a key", "an expression with an exclamation mark",
	"several mistakes in one expression", "different values that cannot be",
}

// The reader refuses every file that the schema refuses, and the schema as many as it can of those that the reader
// refuses.
func TestSchemaRefusesFilesWithErrors(t *testing.T) {
	data, err := os.ReadFile("testdata/faults.txt")
	if err != nil {
		t.Fatal(err)
	}
	schema := compiledSchema(t)
	for _, section := range strings.Split(string(data), "\n==== ")[1:] {
		title, rest, _ := strings.Cut(section, "\n")
		file, said, _ := strings.Cut(rest, "----\n")
		faulty := said != "fine\n" && !strings.HasPrefix(said, "warning")
		ok, isYAML := valid(schema, file)
		if isYAML && ok && faulty && !slices.Contains(beyondSchema, title) {
			t.Errorf("the schema takes %s", title)
		}
		if isYAML && !ok && !faulty {
			t.Errorf("the schema refuses %s, which is read", title)
		}
	}
}

func TestSchemaHasTheKeysOfTheReader(t *testing.T) {
	var schema struct {
		Properties map[string]any
		Defs       map[string]struct{ Properties map[string]any } `json:"$defs"`
	}
	if err := json.Unmarshal(Schema, &schema); err != nil {
		t.Fatal(err)
	}
	readers := map[string]any{"rule": ruleSpec{}, "allow": allowSpec{}, "block": blockSpec{}, "algorithmMap": algorithmMap{}, "inlineMap": inlineMap{}}
	for name, reader := range readers {
		same(t, name, schema.Defs[name].Properties, yamlfile.Names(reader))
	}
	same(t, "the file", schema.Properties, yamlfile.Names(fileSpec{}))
}

func same(t *testing.T, what string, properties map[string]any, names []string) {
	t.Helper()
	var keys []string
	for key := range properties {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	slices.Sort(names)
	if !slices.Equal(keys, names) {
		t.Errorf("%s: the schema has %v, the reader %v", what, keys, names)
	}
}
