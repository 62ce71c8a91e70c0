package config

import (
	"net/netip"
	"slices"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"

	"weir/internal/yamlfile"
)

// warnNever warns about the parts of Only that never hold, whatever a record has: its fields are texts.
func (s *Source) warnNever(v yamlfile.Value) {
	tree, err := parser.Parse(s.Only)
	if err != nil {
		return
	}
	var n neverFinder
	ast.Walk(&tree.Node, &n)
	for _, part := range n.parts {
		v.Key("only").Warnf(part.remedy, "%s never holds: %s", part.text, part.why)
	}
}

// A neverFinder collects the parts of an expression that never hold.
type neverFinder struct{ parts []neverPart }

type neverPart struct{ text, why, remedy string }

// Visit is called for each node.
func (n *neverFinder) Visit(node *ast.Node) {
	switch part := (*node).(type) {
	case *ast.CallNode:
		n.add(part, "there is no such function", "compare the field's text")
	case *ast.BinaryNode:
		if !slices.Contains([]string{"==", "<", "<=", ">", ">=", "in"}, part.Operator) {
			return
		}
		left, right := fieldName(part.Left) != nil, fieldName(part.Right) != nil
		switch {
		case left && isAll(part.Right, isNumber) || right && isAll(part.Left, isNumber):
			n.add(part, "the fields of a record are texts", `write a text, such as status == "404", or int(status) >= 400`)
		case left && isAll(part.Right, isNetwork) || right && isAll(part.Left, isNetwork):
			n.add(part, "no address is a network", `compare the beginning of the text: ip startsWith "10."`)
		}
	}
}

func (n *neverFinder) add(node ast.Node, why, remedy string) {
	n.parts = append(n.parts, neverPart{node.String(), why, remedy})
}

// isAll reports whether a node, or each element of the list that it is, is something.
func isAll(node ast.Node, is func(ast.Node) bool) bool {
	list, ok := node.(*ast.ArrayNode)
	if !ok {
		return is(node)
	}
	return len(list.Nodes) > 0 && !slices.ContainsFunc(list.Nodes, func(one ast.Node) bool { return !is(one) })
}

func isNumber(node ast.Node) bool {
	switch one := node.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return true
	case *ast.BinaryNode:
		return one.Operator == ".."
	}
	return false
}

func isNetwork(node ast.Node) bool {
	text, ok := node.(*ast.StringNode)
	if !ok {
		return false
	}
	_, err := netip.ParsePrefix(text.Value)
	return err == nil
}
