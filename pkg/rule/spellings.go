package rule

import (
	"fmt"
	"strings"

	"github.com/expr-lang/expr/ast"

	"weir/internal/yamlfile"
	"weir/pkg/request"
)

// spellings warns of matches that compare a path, a host or a method with a text that none can be.
func (l *loader) spellings(set *Set) {
	for _, r := range set.Rules {
		l.spellingOf(r.place, r.match, set.Paths)
	}
	for i := range l.allows {
		l.spellingOf(l.allows[i].place, set.Allows[i].match, set.Paths)
	}
}

func (l *loader) spellingOf(place yamlfile.Fault, match *expression, paths request.PathForm) {
	if match == nil {
		return
	}
	found := comparisons{paths: paths}
	ast.Walk(&match.tree, &found)
	l.warn(place, found.what, found.remedy)
}

// comparisons finds the first text that is compared in vain.
type comparisons struct {
	paths        request.PathForm
	what, remedy string
}

// Visit checks one comparison.
func (c *comparisons) Visit(node *ast.Node) {
	n, ok := (*node).(*ast.BinaryNode)
	if !ok || c.what != "" {
		return
	}

	switch n.Operator {
	case "==", "!=":
		c.compare(n.Left, n.Right)
		c.compare(n.Right, n.Left)
	case "in":
		if list, ok := n.Right.(*ast.ArrayNode); ok {
			for _, text := range list.Nodes {
				c.compare(n.Left, text)
			}
		}
	}
}

func (c *comparisons) compare(name, with ast.Node) {
	field, isName := name.(*ast.IdentifierNode)
	text, isText := with.(*ast.StringNode)
	if !isName || !isText || text.Value == "" || c.what != "" {
		return
	}
	is, remedy := c.spelled(field.Value, text.Value)
	if is == text.Value {
		return
	}
	c.what = fmt.Sprintf("the match compares %s with %q, which no %s is", field.Value, text.Value, field.Value)
	c.remedy = fmt.Sprintf("write %q", is) + remedy
}

// spelled is a text in the spelling of the field of that name.
func (c *comparisons) spelled(name, text string) (is, remedy string) {
	switch name {
	case "method":
		return PlainMethod(text), ""
	case "host":
		host := strings.TrimRight(strings.ToLower(text), ".")
		if bare, port, ok := strings.Cut(host, ":"); ok && strings.Trim(port, "0123456789") == "" {
			host = strings.TrimRight(bare, ".")
		}
		return host, ""
	case "path":
		// The target of OPTIONS *, which is no path.
		if text == "*" {
			return text, ""
		}
		path, query, asks := strings.Cut(text, "?")
		if asks {
			remedy = fmt.Sprintf(", and query == %q", query)
		}
		if !strings.HasPrefix(path, "/") {
			path = "/" + path
		}
		path, _ = c.paths.Normal(path, false, nil)
		return path, remedy + "; or compare raw_path, which is as it was sent"
	}

	return text, ""
}
