package rule

import (
	"net/netip"

	"github.com/expr-lang/expr/ast"

	"weir/internal/network"
)

// networks are those that conditions of an expression name which the client's address has to meet.
func (e *expression) networks() []netip.Prefix {
	if e == nil {
		return nil
	}
	var named addressFinder
	substitute(e.tree, true, func(n ast.Node, holds bool) ast.Node {
		if holds {
			ast.Walk(&n, &named)
		}
		return &ast.BoolNode{Value: holds}
	})
	return named.prefixes
}

// An addressFinder finds the addresses in inNetwork(ip, …), ip == … and ip in […].
type addressFinder struct{ prefixes []netip.Prefix }

// Visit collects the addresses of a condition.
func (f *addressFinder) Visit(node *ast.Node) {
	var asked ast.Node
	var texts []ast.Node
	switch n := (*node).(type) {
	case *ast.CallNode:
		if len(n.Arguments) > 0 {
			asked, texts = n.Arguments[0], n.Arguments[1:]
		}
	case *ast.BinaryNode:
		if n.Operator == "==" || n.Operator == "in" {
			asked, texts = n.Left, []ast.Node{n.Right}
		}
		if _, turned := n.Left.(*ast.StringNode); turned && n.Operator == "==" {
			asked, texts = n.Right, []ast.Node{n.Left}
		}
		if list, ok := n.Right.(*ast.ArrayNode); ok {
			texts = list.Nodes
		}
	}
	if name, ok := asked.(*ast.IdentifierNode); !ok || name.Value != "ip" {
		return
	}
	for _, text := range texts {
		if text, ok := text.(*ast.StringNode); ok {
			if prefix, err := network.Parse(text.Value); err == nil {
				f.prefixes = append(f.prefixes, prefix)
			}
		}
	}
}
