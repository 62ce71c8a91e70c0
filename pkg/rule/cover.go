package rule

import (
	"reflect"
	"slices"

	"github.com/expr-lang/expr/ast"
)

// ofResponse are the names that an enforcer does not know when it decides: those of the response, and the further
// fields of a log.
var ofResponse = []string{"status", "bytes", "fields"}

// beforehand is a match as far as it can be decided before the response. Conditions on the response get the value that
// makes the match true: true, or false under a not. everything means that no other condition is left.
func beforehand(match *expression) (cover *expression, everything bool) {
	tree := assume(match.tree, true)
	if constant, ok := tree.(*ast.BoolNode); ok {
		return nil, constant.Value
	}
	cover = &expression{tree: tree}
	if cover.translate(reflect.Bool); cover.boolean == nil {
		cover, _ = compile(tree.String(), reflect.Bool)
	}
	return cover, cover == nil
}

// assume replaces every condition on the response by holds.
func assume(n ast.Node, holds bool) ast.Node {
	if !needsResponse(n) {
		return n
	}
	switch n := n.(type) {
	case *ast.BinaryNode:
		switch n.Operator {
		case "and", "&&":
			return both(assume(n.Left, holds), assume(n.Right, holds))
		case "or", "||":
			return either(assume(n.Left, holds), assume(n.Right, holds))
		}
	case *ast.UnaryNode:
		if n.Operator == "not" || n.Operator == "!" {
			return negated(assume(n.Node, !holds))
		}
	}

	// Any other expression that reads the response is one condition.
	return &ast.BoolNode{Value: holds}
}

func both(left, right ast.Node) ast.Node { return joined("and", left, right, true) }

func either(left, right ast.Node) ast.Node { return joined("or", left, right, false) }

// joined joins two conditions. One that is always neutral leaves the other, and one that never is decides alone.
func joined(operator string, left, right ast.Node, neutral bool) ast.Node {
	if constant, ok := left.(*ast.BoolNode); ok {
		if constant.Value == neutral {
			return right
		}
		return left
	}
	if _, ok := right.(*ast.BoolNode); ok {
		return joined(operator, right, left, neutral)
	}
	return &ast.BinaryNode{Operator: operator, Left: left, Right: right}
}

func negated(inner ast.Node) ast.Node {
	if constant, ok := inner.(*ast.BoolNode); ok {
		return &ast.BoolNode{Value: !constant.Value}
	}
	return &ast.UnaryNode{Operator: "not", Node: inner}
}

func needsResponse(n ast.Node) bool {
	finder := &responseFinder{}
	ast.Walk(&n, finder)
	return finder.found
}

type responseFinder struct{ found bool }

func (f *responseFinder) Visit(node *ast.Node) {
	if name, ok := (*node).(*ast.IdentifierNode); ok && slices.Contains(ofResponse, name.Value) {
		f.found = true
	}
}
