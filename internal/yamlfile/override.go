package yamlfile

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

type override struct{ path, text, origin string }

func (d *decoder) override(root *yaml.Node) {
	for _, o := range d.overrides {
		inner := &decoder{file: o.origin}
		node := inner.document([]byte(o.text))
		for _, fault := range inner.faults {
			d.faults = append(d.faults, Fault{File: o.origin, What: fault.What, Remedy: fault.Remedy})
		}

		if node == nil {
			continue
		}
		node.Line, node.Column = 0, 0
		if !d.put(root, strings.Split(o.path, "."), node, o.origin) {
			d.faults = append(d.faults, Fault{File: o.origin, What: "there is no place " + o.path, Remedy: "an element of a list is named by its number, the first is 0"})
		}
	}
}

// put sets the value at a path below node, and creates missing maps.
func (d *decoder) put(node *yaml.Node, path []string, value *yaml.Node, origin string) bool {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	slot := d.slot(node, path[0], origin)
	if slot == nil {
		return false
	}
	if len(path) == 1 {
		*slot, d.origins[value] = value, origin
		return true
	}
	return d.put(*slot, path[1:], value, origin)
}

// slot returns the place of a name in a map or a list; a map gets the key if it has none.
func (d *decoder) slot(node *yaml.Node, name, origin string) **yaml.Node {
	if node.Kind == yaml.SequenceNode {
		i, err := strconv.Atoi(name)
		if err != nil || i < 0 || i >= len(node.Content) {
			return nil
		}
		return &node.Content[i]
	}

	// A scalar on the way, mostly a null, becomes a map: overrides are stronger than the file.
	if node.Kind == yaml.ScalarNode {
		*node, d.origins[node] = yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}, origin
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == name {
			return &node.Content[i+1]
		}
	}

	key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}
	under := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	node.Content = append(node.Content, key, under)
	d.origins[key], d.origins[under] = origin, origin
	return &node.Content[len(node.Content)-1]
}
