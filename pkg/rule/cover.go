package rule

import (
	"reflect"
	"slices"

	"github.com/expr-lang/expr/ast"
)

// ofResponse are the names that an enforcer does not know when it decides: those of the response, and the further
// fields of a log. An attempt has its verdict when it is decided.
var ofResponse = []string{"status", "bytes", "fields", "verdict", "rule"}

// A check does not look closely at a request with a path or a host of more than longPath bytes, or another text of more
// than longText bytes.
const (
	longPath = 1024
	longText = 4096
)

// beforehand is a match as far as it can be decided before the response. Conditions on the response get the value that
// makes the match true: true, or false under a not. everything means that no other condition is left.
func beforehand(match *expression) (cover *expression, everything bool) {
	tree := assume(match.tree, true)
	if constant, ok := tree.(*ast.BoolNode); ok {
		return nil, constant.Value
	}
	cover = conditionOf(tree)
	return cover, cover == nil
}

// unmetBefore is a match in which every condition on the response counts as not met.
func unmetBefore(match *expression) *expression {
	if match == nil || readOfResponse(match.tree) == "" {
		return match
	}
	if before := conditionOf(assume(match.tree, false)); before != nil {
		return before
	}
	return conditionOf(&ast.BoolNode{})
}

// conditionOf makes a checked tree ready to run; nil if that is not possible.
func conditionOf(tree ast.Node) *expression {
	condition := &expression{tree: tree}
	if condition.translate(reflect.Bool); condition.boolean == nil {
		condition, _ = compile(tree.String(), reflect.Bool)
	}
	return condition
}

// assume replaces every condition on the response by holds.
func assume(n ast.Node, holds bool) ast.Node {
	if readOfResponse(n) == "" {
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

// readOfResponse is a name of the response that a condition reads, "" if it reads none.
func readOfResponse(n ast.Node) string {
	finder := &responseFinder{}
	ast.Walk(&n, finder)
	return finder.found
}

type responseFinder struct{ found string }

func (f *responseFinder) Visit(node *ast.Node) {
	if name, ok := (*node).(*ast.IdentifierNode); ok && slices.Contains(ofResponse, name.Value) {
		f.found = name.Value
	}
}
