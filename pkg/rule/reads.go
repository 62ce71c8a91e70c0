package rule

import (
	"slices"

	"github.com/expr-lang/expr/ast"
)

// Reads are the names of the fields that a Judge of the set reads of requests, further ones among them; nil is whatever
// fields a request has. The time it always reads.
func (s *Set) Reads() []string {
	reads := reader{names: []string{}}
	for _, rule := range s.Rules {
		reads.rule(rule)
	}
	for _, allow := range s.Allows {
		reads.allow(allow)
	}
	if reads.any {
		return nil
	}
	slices.Sort(reads.names)
	return slices.Compact(reads.names)
}

// A reader gathers what is read.
type reader struct {
	names []string
	any   bool // a further field whose name is not known beforehand
}

func (r *reader) add(names ...string) {
	for _, name := range names {
		if name == "raw_path" {
			name = "path"
		}
		r.names = append(r.names, name)
	}
}

func (r *reader) rule(rule *Rule) {
	for _, part := range rule.Key.parts {
		r.add(part.name)
	}
	if rule.Count == Served {
		r.add(refusedField, "status")
	}
	r.expression(rule.match)
	r.expression(rule.cost)
}

func (r *reader) allow(allow *Allow) {
	if len(allow.Prefixes) > 0 {
		r.add("ip")
	}
	if len(allow.Users) > 0 {
		r.add("user")
	}
	if len(allow.Hosts) > 0 {
		r.add("host")
	}
	r.expression(allow.match)
}

// expression adds every name in it. A further field is known beforehand when its name is constant: fields.name.
func (r *reader) expression(e *expression) {
	if e == nil {
		return
	}
	named := namesIn{}
	ast.Walk(&e.tree, &named)
	r.add(named.all...)
	r.any = r.any || named.whole > 0
}

type namesIn struct {
	all   []string
	whole int // times that fields stands without a constant name behind it
}

// Visit sees what is within a node before the node itself.
func (n *namesIn) Visit(node *ast.Node) {
	switch node := (*node).(type) {
	case *ast.IdentifierNode:
		if node.Value == "fields" {
			n.whole++
			return
		}
		n.all = append(n.all, node.Value)
	case *ast.MemberNode:
		of, ok := node.Node.(*ast.IdentifierNode)
		name, constant := node.Property.(*ast.StringNode)
		if ok && constant && of.Value == "fields" {
			n.all = append(n.all, name.Value)
			n.whole--
		}
	}
}
