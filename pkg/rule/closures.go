package rule

import (
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"

	"weir/internal/address"
	"weir/internal/network"
)

// Expressions run as closures made of their checked tree, because the virtual machine allocates at every integer. The
// virtual machine runs the expressions that closures cannot. Both give the same results (a test compares them).
//
// This file has the closures of conditions, closures_values.go those of the values that they compare.

type (
	boolean = func(*subject) bool
	integer = func(*subject) int
	float   = func(*subject) float64
	text    = func(*subject) string
)

// translate makes closures of the complete tree, or none.
func (e *expression) translate(wanted reflect.Kind) {
	if wanted == reflect.Bool {
		e.boolean = booleanOf(e.tree)
		return
	}
	e.number = floatOf(e.tree)
}

// booleanOf is nil if the virtual machine is needed; so are the other …Of.
func booleanOf(n ast.Node) boolean {
	switch n := n.(type) {
	case *ast.BoolNode:
		value := n.Value
		return func(*subject) bool { return value }
	case *ast.UnaryNode:
		if inner := booleanOf(n.Node); inner != nil && (n.Operator == "not" || n.Operator == "!") {
			return func(s *subject) bool { return !inner(s) }
		}
	case *ast.BinaryNode:
		return binaryOf(n)
	case *ast.ConditionalNode:
		return choose(booleanOf(n.Cond), booleanOf(n.Exp1), booleanOf(n.Exp2))
	case *ast.CallNode:
		return networkOf(n)
	case *ast.BuiltinNode:
		return prefixFunctionOf(n)
	}

	return nil
}

func binaryOf(n *ast.BinaryNode) boolean {
	switch n.Operator {
	case "and", "&&", "or", "||":
		return logicOf(n)
	case "startsWith", "endsWith", "contains", "matches":
		return textTestOf(n)
	case "in":
		return memberOf(n)
	case "==", "!=", "<", "<=", ">", ">=":
		return comparisonOf(n)
	}
	return nil
}

func logicOf(n *ast.BinaryNode) boolean {
	left, right := booleanOf(n.Left), booleanOf(n.Right)
	if left == nil || right == nil {
		return nil
	}
	if n.Operator == "and" || n.Operator == "&&" {
		return func(s *subject) bool { return left(s) && right(s) }
	}
	return func(s *subject) bool { return left(s) || right(s) }
}

func textTestOf(n *ast.BinaryNode) boolean {
	left := textOf(n.Left)
	if left == nil {
		return nil
	}
	if constant, ok := n.Right.(*ast.StringNode); ok {
		return constantTest(n.Operator, left, constant.Value)
	}

	// A pattern that is not constant is left to the virtual machine: it has to be compiled for each request, and may be
	// wrong.
	right := textOf(n.Right)
	if right == nil || n.Operator == "matches" {
		return nil
	}

	test := map[string]func(a, b string) bool{"startsWith": strings.HasPrefix, "endsWith": strings.HasSuffix, "contains": strings.Contains}[n.Operator]
	return func(s *subject) bool { return test(left(s), right(s)) }
}

func constantTest(operator string, left text, right string) boolean {
	switch operator {
	case "startsWith":
		return func(s *subject) bool { return strings.HasPrefix(left(s), right) }
	case "endsWith":
		return func(s *subject) bool { return strings.HasSuffix(left(s), right) }
	case "contains":
		return func(s *subject) bool { return strings.Contains(left(s), right) }
	}

	pattern, err := regexp.Compile(anyCharacter + right)
	if err != nil {
		return nil
	}
	return func(s *subject) bool { return pattern.MatchString(left(s)) }
}

// memberOf is x in a list of constants, or a number in a range of them.
func memberOf(n *ast.BinaryNode) boolean {
	if r, ok := n.Right.(*ast.BinaryNode); ok && r.Operator == ".." {
		number, from, to := integerOf(n.Left), constantInteger(r.Left), constantInteger(r.Right)
		if number == nil || from == nil || to == nil {
			return nil
		}
		return func(s *subject) bool { x := number(s); return *from <= x && x <= *to }
	}

	list, ok := n.Right.(*ast.ArrayNode)
	if !ok {
		return nil
	}

	// A list of mixed constants is left to the virtual machine, which compares by type.
	if left := textOf(n.Left); left != nil {
		if texts, ok := constants(list, func(n *ast.StringNode) string { return n.Value }); ok {
			return func(s *subject) bool { return slices.Contains(texts, left(s)) }
		}
		return nil
	}

	left := integerOf(n.Left)
	numbers, ok := constants(list, func(n *ast.IntegerNode) int { return n.Value })
	if left == nil || !ok {
		return nil
	}

	return func(s *subject) bool { return slices.Contains(numbers, left(s)) }
}

func constantInteger(n ast.Node) *int {
	if constant, ok := n.(*ast.IntegerNode); ok {
		return &constant.Value
	}
	return nil
}

// constants are the values of a list that has only nodes of one type.
func constants[N ast.Node, T any](list *ast.ArrayNode, value func(N) T) ([]T, bool) {
	var values []T
	for _, node := range list.Nodes {
		constant, ok := node.(N)
		if !ok {
			return nil, false
		}
		values = append(values, value(constant))
	}
	return values, true
}

func comparisonOf(n *ast.BinaryNode) boolean {
	// Integers before floats: an integer is also a float, and large ones would lose digits.
	if left, right := textOf(n.Left), textOf(n.Right); left != nil && right != nil {
		return compare(n.Operator, left, right)
	}
	if left, right := integerOf(n.Left), integerOf(n.Right); left != nil && right != nil {
		return compare(n.Operator, left, right)
	}
	if left, right := floatOf(n.Left), floatOf(n.Right); left != nil && right != nil {
		return compare(n.Operator, left, right)
	}

	left, right := booleanOf(n.Left), booleanOf(n.Right)
	if left == nil || right == nil {
		return nil
	}
	if n.Operator == "==" {
		return func(s *subject) bool { return left(s) == right(s) }
	}

	return func(s *subject) bool { return left(s) != right(s) }
}

func compare[T int | float64 | string](operator string, left, right func(*subject) T) boolean {
	switch operator {
	case "==":
		return func(s *subject) bool { return left(s) == right(s) }
	case "!=":
		return func(s *subject) bool { return left(s) != right(s) }
	case "<":
		return func(s *subject) bool { return left(s) < right(s) }
	case "<=":
		return func(s *subject) bool { return left(s) <= right(s) }
	case ">":
		return func(s *subject) bool { return left(s) > right(s) }
	}

	return func(s *subject) bool { return left(s) >= right(s) }
}

// networkOf is inNetwork(ip, …) and inNetwork of another text.
func networkOf(n *ast.CallNode) boolean {
	callee, ok := n.Callee.(*ast.IdentifierNode)
	if !ok || callee.Value != inNetwork || len(n.Arguments) < 2 {
		return nil
	}

	var prefixes []netip.Prefix
	for _, argument := range n.Arguments[1:] {
		constant, ok := argument.(*ast.StringNode)
		if !ok {
			return nil
		}
		prefix, err := network.Parse(constant.Value)
		if err != nil {
			return nil
		}
		prefixes = append(prefixes, prefix)
	}

	// All prefixes are constants here, checked when the rules were read: only the address is read for each request.
	address := addressOf(n.Arguments[0])
	if address == nil {
		return nil
	}
	return func(s *subject) bool {
		ip := address(s)
		return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(ip) })
	}
}

func addressOf(n ast.Node) func(*subject) netip.Addr {
	if name, ok := n.(*ast.IdentifierNode); ok && name.Value == "ip" {
		return (*subject).plainIP
	}
	inner := textOf(n)
	if inner == nil {
		return nil
	}

	return func(s *subject) netip.Addr {
		addr, err := netip.ParseAddr(inner(s))
		if err != nil {
			return netip.Addr{}
		}
		return address.Plain(addr)
	}
}

// prefixFunctionOf is hasPrefix(text, text) and hasSuffix(text, text).
func prefixFunctionOf(n *ast.BuiltinNode) boolean {
	test := map[string]func(a, b string) bool{"hasPrefix": strings.HasPrefix, "hasSuffix": strings.HasSuffix}[n.Name]
	if test == nil || len(n.Arguments) != 2 {
		return nil
	}
	left, right := textOf(n.Arguments[0]), textOf(n.Arguments[1])
	if left == nil || right == nil {
		return nil
	}
	return func(s *subject) bool { return test(left(s), right(s)) }
}
