package rule

import (
	"math"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"

	"weir/internal/address"
	"weir/internal/network"
)

// Expressions run as closures made of their checked tree, because the virtual machine allocates at every integer. The
// virtual machine runs the expressions that closures cannot. Both give the same results (a test compares them).

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

	pattern, err := regexp.Compile(right)
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

func textOf(n ast.Node) text {
	switch n := n.(type) {
	case *ast.StringNode:
		value := n.Value
		return func(*subject) string { return value }
	case *ast.IdentifierNode:
		return textNames[n.Value]
	case *ast.MemberNode:
		return fieldOf(n)
	case *ast.ConditionalNode:
		return choose(booleanOf(n.Cond), textOf(n.Exp1), textOf(n.Exp2))
	case *ast.BuiltinNode:
		function := map[string]func(string) string{"lower": strings.ToLower, "upper": strings.ToUpper, "trim": strings.TrimSpace}[n.Name]
		if function == nil || len(n.Arguments) != 1 {
			return nil
		}
		if inner := textOf(n.Arguments[0]); inner != nil {
			return func(s *subject) string { return function(inner(s)) }
		}
	}

	return nil
}

var textNames = map[string]text{
	"ip":       (*subject).ip,
	"user":     func(s *subject) string { return s.User },
	"method":   func(s *subject) string { return s.method() },
	"host":     (*subject).host,
	"path":     (*subject).path,
	"raw_path": func(s *subject) string { return s.Path },
	"query":    func(s *subject) string { return s.Query },
	"agent":    func(s *subject) string { return s.Agent },
	"referrer": func(s *subject) string { return s.Referrer },
}

// fieldOf is fields.name and fields["name"].
func fieldOf(n *ast.MemberNode) text {
	of, ok := n.Node.(*ast.IdentifierNode)
	name, constant := n.Property.(*ast.StringNode)
	if !ok || !constant || of.Value != "fields" || n.Method {
		return nil
	}
	wanted := name.Value
	return func(s *subject) string { return field(s.Request, wanted) }
}

func integerOf(n ast.Node) integer {
	switch n := n.(type) {
	case *ast.IntegerNode:
		value := n.Value
		return func(*subject) int { return value }
	case *ast.IdentifierNode:
		switch n.Value {
		case "status":
			return func(s *subject) int { return s.Status }
		case "bytes":
			return (*subject).bytes
		}
	case *ast.UnaryNode:
		if inner := integerOf(n.Node); inner != nil {
			return signed(n.Operator, inner)
		}
	case *ast.BinaryNode:
		return arithmeticOf(n)
	case *ast.ConditionalNode:
		return choose(booleanOf(n.Cond), integerOf(n.Exp1), integerOf(n.Exp2))
	case *ast.BuiltinNode:
		return integerFunctionOf(n)
	}

	return nil
}

func signed[T int | float64](operator string, inner func(*subject) T) func(*subject) T {
	switch operator {
	case "-":
		return func(s *subject) T { return -inner(s) }
	case "+":
		return inner
	}
	return nil
}

func arithmeticOf(n *ast.BinaryNode) integer {
	left, right := integerOf(n.Left), integerOf(n.Right)
	if left == nil || right == nil {
		return nil
	}
	if n.Operator == "%" {
		divisor := constantInteger(n.Right)
		if divisor == nil || *divisor == 0 {
			return nil
		}
		return func(s *subject) int { return left(s) % *divisor }
	}
	return calculate(n.Operator, left, right)
}

func calculate[T int | float64](operator string, left, right func(*subject) T) func(*subject) T {
	switch operator {
	case "+":
		return func(s *subject) T { return left(s) + right(s) }
	case "-":
		return func(s *subject) T { return left(s) - right(s) }
	case "*":
		return func(s *subject) T { return left(s) * right(s) }
	}
	return nil
}

func integerFunctionOf(n *ast.BuiltinNode) integer {
	switch {
	case n.Name == "len" && len(n.Arguments) == 1:
		if inner := textOf(n.Arguments[0]); inner != nil {
			return func(s *subject) int { return utf8.RuneCountInString(inner(s)) }
		}
	case (n.Name == "max" || n.Name == "min") && len(n.Arguments) == 2:
		return pick(n.Name, integerOf(n.Arguments[0]), integerOf(n.Arguments[1]))
	}
	return nil
}

// floatOf is any number; an integer is converted.
func floatOf(n ast.Node) float {
	if asInteger := integerOf(n); asInteger != nil {
		return func(s *subject) float64 { return float64(asInteger(s)) }
	}
	switch n := n.(type) {
	case *ast.FloatNode:
		value := n.Value
		return func(*subject) float64 { return value }
	case *ast.UnaryNode:
		if inner := floatOf(n.Node); inner != nil {
			return signed(n.Operator, inner)
		}
	case *ast.BinaryNode:
		return floatArithmeticOf(n)
	case *ast.ConditionalNode:
		return choose(booleanOf(n.Cond), floatOf(n.Exp1), floatOf(n.Exp2))
	case *ast.BuiltinNode:
		return floatFunctionOf(n)
	}

	return nil
}

func floatArithmeticOf(n *ast.BinaryNode) float {
	left, right := floatOf(n.Left), floatOf(n.Right)
	if left == nil || right == nil {
		return nil
	}
	if n.Operator == "/" {
		return func(s *subject) float64 { return left(s) / right(s) }
	}
	return calculate(n.Operator, left, right)
}

func floatFunctionOf(n *ast.BuiltinNode) float {
	if (n.Name == "max" || n.Name == "min") && len(n.Arguments) == 2 {
		return pick(n.Name, floatOf(n.Arguments[0]), floatOf(n.Arguments[1]))
	}
	function := map[string]func(float64) float64{"ceil": math.Ceil, "floor": math.Floor, "round": math.Round}[n.Name]
	if function == nil || len(n.Arguments) != 1 {
		return nil
	}
	inner := floatOf(n.Arguments[0])
	if inner == nil {
		return nil
	}
	return func(s *subject) float64 { return function(inner(s)) }
}

// pick is max or min. It handles values that are not a number as the virtual machine does.
func pick[T int | float64](name string, left, right func(*subject) T) func(*subject) T {
	if left == nil || right == nil {
		return nil
	}
	return func(s *subject) T {
		a, b := left(s), right(s)
		if (name == "max" && a < b) || (name == "min" && a > b) {
			return b
		}
		return a
	}
}

func choose[T any](condition boolean, yes, no func(*subject) T) func(*subject) T {
	if condition == nil || yes == nil || no == nil {
		return nil
	}
	return func(s *subject) T {
		if condition(s) {
			return yes(s)
		}
		return no(s)
	}
}
