package rule

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"

	"weir/internal/yamlfile"
	"weir/pkg/request"
)

// spellings warns of matches that compare a path, a host or a method with a text that none can be, and of rules for the
// path of a script alone.
func (l *loader) spellings(set *Set) {
	for _, r := range set.Rules {
		l.spellingOf(r.place, r.match, set.Paths)
		l.scriptOf(r)
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

// scriptOf warns of a rule that counts /login.php but not /login.php/x, which servers run as the same script.
func (l *loader) scriptOf(r *Rule) {
	if r.match == nil {
		return
	}
	var found scripts
	ast.Walk(&r.match.tree, &found)
	if found.path != "" {
		l.warn(r.place, fmt.Sprintf("a client can avoid the match by %q, which many servers run as %q", found.path+"/x", found.path),
			fmt.Sprintf("write path matches %q", "^"+strings.ReplaceAll(found.path, ".", "[.]")+"(/|$)"))
	}
}

// scripts finds the first path of a script that a match asks for.
type scripts struct {
	path string
	at   ast.Node
}

// Visit checks one comparison. A match that is for all paths but this one, as with not, misses nothing.
func (s *scripts) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.UnaryNode:
		if s.at != nil && n.Node == s.at {
			s.path, s.at = "", nil
		}
	case *ast.BinaryNode:
		if s.path != "" {
			return
		}
		with := []ast.Node{n.Left, n.Right}
		if list, ok := n.Right.(*ast.ArrayNode); ok && n.Operator == "in" {
			with = append([]ast.Node{n.Left}, list.Nodes...)
		} else if n.Operator != "==" {
			return
		}
		asks := slices.ContainsFunc(with, func(one ast.Node) bool {
			name, ok := one.(*ast.IdentifierNode)
			return ok && name.Value == "path"
		})
		for _, one := range with {
			if text, ok := one.(*ast.StringNode); ok && asks && isScript(text.Value) {
				s.path, s.at = text.Value, n
				return
			}
		}
	}
}

// isScript reports whether servers run a path as a script, and give it the path that stands behind it.
func isScript(p string) bool {
	return slices.Contains([]string{".php", ".cgi", ".pl", ".asp", ".aspx"}, strings.ToLower(path.Ext(p)))
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
