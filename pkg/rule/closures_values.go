package rule

import (
	"math"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"

	"weir/pkg/geoip"
)

// The closures of values: texts, integers and floats. closures.go has those of conditions, which compare them.

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
	"verdict":  (*subject).verdict,
	"rule":     (*subject).rule,
	"as_name":  func(s *subject) string { return s.located().Text(geoip.ASName) },
	"country":  func(s *subject) string { return s.located().Text(geoip.Country) },
	"city":     func(s *subject) string { return s.located().Text(geoip.City) },
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
		case "asn":
			return (*subject).asn
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

	// A divisor that may be zero would panic in a closure. In the virtual machine it is an error, which counts as
	// Failed.
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
	// An integer is computed as one and converted at the end, as in the virtual machine: large ones keep their digits.
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
