package rule

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/parser/lexer"
	"github.com/expr-lang/expr/vm"

	"weir/internal/address"
	"weir/internal/nearest"
	"weir/internal/network"
	"weir/internal/yamlfile"
)

// environment contains the fields of a request for expressions. An unknown field is "" or 0.
type environment struct {
	IP       string            `expr:"ip"`
	User     string            `expr:"user"`
	Method   string            `expr:"method"`
	Host     string            `expr:"host"`
	Path     string            `expr:"path"`
	RawPath  string            `expr:"raw_path"`
	Query    string            `expr:"query"`
	Status   int               `expr:"status"`
	Bytes    int               `expr:"bytes"`
	Agent    string            `expr:"agent"`
	Referrer string            `expr:"referrer"`
	Verdict  string            `expr:"verdict"` // of an attempt at an inline rule
	Rule     string            `expr:"rule"`    // likewise
	Fields   map[string]string `expr:"fields"`
	ASN      int               `expr:"asn"` // of the client's address, as the following
	ASName   string            `expr:"as_name"`
	Country  string            `expr:"country"`
	City     string            `expr:"city"`
}

var (
	identifiers = []string{"ip", "user", "method", "host", "path", "raw_path", "query", "status", "bytes", "agent", "referrer", "verdict", "rule", "fields", "asn", "as_name", "country", "city"}
	// impure are the functions that do not depend on the request alone, or make no sense without those.
	impure    = []string{"now", "date", "duration", "timezone"}
	operators = []string{"startsWith", "endsWith", "contains", "matches", "in", "not", "and", "or"}
)

// inNetwork is the function inNetwork(address, "10.0.0.0/8", …) for the virtual machine.
const inNetwork = "inNetwork"

// An expression is a match or a cost, checked and made ready to run.
type expression struct {
	text    string // its words, without the spaces and comments in which it was written
	tree    ast.Node
	program *vm.Program // nil if closures run all of it
	boolean func(*subject) bool
	number  func(*subject) float64
}

// A complaint is a mistake in an expression, with its line and column.
type complaint struct {
	line, column int
	what, remedy string
}

// maxExpressionBytes keeps expressions from being nested so deep that parsing them would overflow the stack.
const maxExpressionBytes = 16 << 10

// compile checks an expression; wanted is reflect.Bool for a match or reflect.Float64 for a cost.
func compile(text string, wanted reflect.Kind) (*expression, []complaint) {
	if len(text) > maxExpressionBytes {
		return nil, []complaint{{1, 1, fmt.Sprintf("an expression of %d bytes is too long", len(text)), "write at most 16384, or a rule each"}}
	}
	e, complaints := compileAll(text, wanted)
	if complaints != nil {
		return nil, mistakes(text, complaints, maxNested)
	}
	return e, nil
}

// compileAll compiles an expression up to its first mistakes.
func compileAll(text string, wanted reflect.Kind) (*expression, []complaint) {
	tree, err := parser.Parse(text)
	if err != nil {
		return nil, []complaint{explain(text, err)}
	}

	// Our checks come before the compiler's, which would stop at the first mistake, and whose messages do not know our
	// names.
	if complaints := checkNames(text, tree.Node); complaints != nil {
		return nil, complaints
	}

	free := freed(tree.Node)
	program, err := expr.Compile(text, append(options(wanted, false), free...)...)
	if err != nil {
		return nil, []complaint{explain(text, err)}
	}

	// The tree comes from a compilation without optimizations, which would put nodes into it that closures do not know.
	e := &expression{text: squeeze(text), tree: program.Node()}
	if e.translate(wanted); e.boolean != nil || e.number != nil {
		return e, nil
	}
	if e.program, err = expr.Compile(text, append(append(options(wanted, true), expr.Patch(dots{})), free...)...); err != nil {
		return nil, []complaint{explain(text, err)}
	}

	return e, nil
}

// anyCharacter stands before each pattern: a . is any character, also a newline, which clients can write into a path (%0A).
const anyCharacter = "(?s)"

// dots puts it before the patterns of the virtual machine.
type dots struct{}

func (dots) Visit(node *ast.Node) {
	if n, ok := (*node).(*ast.BinaryNode); ok && n.Operator == "matches" {
		if pattern, ok := n.Right.(*ast.StringNode); ok && !strings.HasPrefix(pattern.Value, anyCharacter) {
			pattern.Value = anyCharacter + pattern.Value // visited again, it stays
		}
	}
}

// squeeze is an expression's words with one space between.
func squeeze(text string) string {
	tokens, err := lexer.Lex(file.NewSource(text))
	if err != nil {
		return text
	}
	words := make([]string, len(tokens))
	for i, token := range tokens {
		words[i] = token.String()
	}
	return strings.Join(words, " ")
}

func options(wanted reflect.Kind, optimize bool) []expr.Option {
	opts := []expr.Option{
		expr.Env(&environment{}), expr.Optimize(optimize),
		expr.Function(inNetwork, networkFunction, new(func(string, string, ...string) bool)),
	}
	for _, name := range impure {
		opts = append(opts, expr.DisableBuiltin(name))
	}
	if wanted == reflect.Bool {
		return append(opts, expr.AsBool())
	}
	return append(opts, expr.AsFloat64())
}

// networkFunction is inNetwork for the virtual machine; checkNames has made sure that the prefixes are constant and
// valid.
func networkFunction(params ...any) (any, error) {
	addr, _ := netip.ParseAddr(params[0].(string)) // no prefix contains an invalid address
	for _, param := range params[1:] {
		prefix, err := network.Parse(param.(string))
		if err == nil && prefix.Contains(address.Plain(addr)) {
			return true, nil
		}
	}
	return false, nil
}

// names walks a tree and finds unknown names and invalid prefixes.
type names struct {
	text       string
	local      []string // declared by let
	complaints []complaint
}

func checkNames(text string, tree ast.Node) []complaint {
	declared := &declarations{}
	ast.Walk(&tree, declared)
	n := &names{text: text, local: declared.names}
	ast.Walk(&tree, n)
	return n.complaints
}

type declarations struct{ names []string }

func (d *declarations) Visit(node *ast.Node) {
	if let, ok := (*node).(*ast.VariableDeclaratorNode); ok {
		d.names = append(d.names, let.Name)
	}
}

func (n *names) Visit(node *ast.Node) {
	switch node := (*node).(type) {
	case *ast.IdentifierNode:
		if !slices.Contains(identifiers, node.Value) && !slices.Contains(n.local, node.Value) && node.Value != inNetwork {
			n.complain(node, suggestName(node.Value), "%s is not known", node.Value)
		}
	case *ast.BuiltinNode:
		if slices.Contains(impure, node.Name) {
			n.complain(node, "an expression sees the request only", "%s() is not known", node.Name)
		}
	case *ast.BinaryNode:
		n.checkPattern(node)
		n.checkAddress(node)
	case *ast.CallNode:
		n.checkNetworks(node)
	}
}

// suggestName suggests a replacement for an unknown name: mostly another name, or quotes around a text.
func suggestName(name string) string {
	if meant := usualNames[strings.ToLower(name)]; meant != "" {
		return "did you mean " + meant + "?"
	}
	if isHeader(name) {
		return "did you mean fields." + name + "?"
	}
	known := append(slices.Clone(identifiers), inNetwork)
	return nearest.Suggest(name, known, fmt.Sprintf("text stands in quotes: %q; the names are ", name))
}

// checkPattern finds all mistakes in regular expressions before the compiler does, with messages of our own.
func (n *names) checkPattern(node *ast.BinaryNode) {
	pattern, ok := node.Right.(*ast.StringNode)
	if !ok || node.Operator != "matches" {
		return
	}
	if _, err := regexp.Compile(pattern.Value); err != nil {
		n.complain(pattern, "the syntax is RE2's, without lookaround and backreferences", "%q is no regular expression: %s",
			pattern.Value, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
}

// checkAddress finds texts that no address can equal.
func (n *names) checkAddress(node *ast.BinaryNode) {
	if name, ok := node.Left.(*ast.IdentifierNode); !ok || name.Value != "ip" || !slices.Contains([]string{"==", "!=", "in"}, node.Operator) {
		return
	}
	wanted := []ast.Node{node.Right}
	if list, ok := node.Right.(*ast.ArrayNode); ok {
		wanted = list.Nodes
	}

	for _, node := range wanted {
		text, ok := node.(*ast.StringNode)
		if !ok || text.Value == "" {
			continue
		}
		switch prefix, err := network.Parse(text.Value); {
		// An address is compared as text, so it must be in the one form that ip has: 2001:DB8::1 would never be equal.
		case err != nil || !prefix.IsSingleIP() || strings.Contains(text.Value, "/"):
			n.complain(node, "write inNetwork(ip, \"10.0.0.0/8\") for a network", "no address is %q", text.Value)
		case prefix.Addr().String() != text.Value:
			n.complain(node, "write "+prefix.Addr().String(), "no address is written as %q", text.Value)
		}
	}
}

func (n *names) checkNetworks(node *ast.CallNode) {
	if callee, ok := node.Callee.(*ast.IdentifierNode); !ok || callee.Value != inNetwork || len(node.Arguments) < 2 {
		return
	}
	for _, argument := range node.Arguments[1:] {
		text, ok := argument.(*ast.StringNode)
		if !ok {
			n.complain(argument, `write it as inNetwork(ip, "10.0.0.0/8")`, "a prefix must stand in the expression itself")
			continue
		}
		if _, err := network.Parse(text.Value); err != nil {
			fault := yamlfile.Fault{}.Of(err)
			n.complain(argument, fault.Remedy, "%s", fault.What)
		}
	}
}

func (n *names) complain(node ast.Node, remedy, format string, args ...any) {
	e := (&file.Error{Location: node.Location()}).Bind(file.NewSource(n.text))
	n.complaints = append(n.complaints, complaint{e.Line, e.Column + 1, fmt.Sprintf(format, args...), remedy})
}

// explain adds the most likely correction to the compiler's error.
func explain(text string, err error) complaint {
	var at *file.Error
	if !errors.As(err, &at) {
		return complaint{1, 1, inOurWords.Replace(err.Error()), wantedRemedy(err.Error())}
	}
	return complaint{max(at.Line, 1), at.Column + 1, plainly(at.Message), remedyFor(text, at.Message)}
}

var inOurWords = strings.NewReplacer("expected bool, but got", "it must be true or false, but is a",
	"expected float64, but got", "it must be a number, but is a")

func wantedRemedy(message string) string {
	switch {
	case strings.HasPrefix(message, "expected bool"):
		return `compare something, as in path startsWith "/api/"`
	case strings.HasPrefix(message, "expected float64"):
		return "a cost is a number, such as 1 or bytes / 1024"
	}
	return ""
}

var unexpectedWord = regexp.MustCompile(`unexpected token (?:Identifier|Operator)\("([^"]+)"\)`)

var unexpectedToken = regexp.MustCompile(`unexpected token \w+\((".*?")\)`)

// plainly is a message of the library without its names for the kinds of words.
func plainly(message string) string {
	if message == "unexpected token EOF" {
		return "unexpected end"
	}
	return unexpectedToken.ReplaceAllString(message, "unexpected $1")
}

func remedyFor(text, message string) string {
	word := ""
	if found := unexpectedWord.FindStringSubmatch(message); found != nil {
		word = found[1]
	}

	// From the most specific to the most general: the first that fits is given.
	switch {
	case word == "=":
		return "compare with =="
	case word == "starts", word == "ends":
		return "did you mean " + word + "With?"
	case word == "/":
		return `write text and patterns in quotes: path startsWith "/api/"`
	case strings.Contains(message, `unexpected token Number(".`):
		return `write addresses and networks in quotes: ip == "203.0.113.7", inNetwork(ip, "10.0.0.0/8")`
	case word != "" && nearest.Word(word, operators) != "":
		return "did you mean " + nearest.Word(word, operators) + "?"
	case strings.Contains(message, "(mismatched types string and int)"), strings.Contains(message, "(mismatched types int and string)"):
		return "status and bytes are numbers and stand without quotes, all else is text and stands in quotes (int(fields.name) makes a number of a field)"
	case strings.Contains(message, "unexpected token EOF") && strings.Count(text, `"`)%2 == 0:
		return "something is missing at its end"
	case strings.Contains(message, "literal not terminated"):
		return `close the quote; in YAML put the expression in single quotes, as in 'path == "/x"'`
	case strings.HasPrefix(message, "unexpected token"):
		return `write comparisons with and or or between them, and text in quotes: method == "POST" and path == "/login"`
	}

	return ""
}
