package config

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"
)

// Wanted returns Only as a function that reports whether a record is to be counted; nil when all records are. The function
// gets the record's fields by their dotted names; a missing field is nil in the expression. When the expression fails, for
// example because it compares a text with a number, the record is not counted. Several goroutines may call the function.
func (s *Source) Wanted() (func(field func(name string) (string, bool)) bool, error) {
	if s.Only == "" {
		return nil, nil
	}
	program, err := expr.Compile(s.Only, expr.AllowUndefinedVariables(), expr.AsBool())
	if err != nil {
		return nil, fmt.Errorf("only: %w", err)
	}

	tree, err := parser.Parse(s.Only)
	if err != nil {
		return nil, fmt.Errorf("only: %w", err)
	}

	// Only the fields that the expression names are looked up, and not the complete record converted.
	names := fieldsOf(tree)

	machines := sync.Pool{New: func() any { return new(vm.VM) }}
	return func(field func(string) (string, bool)) bool {
		record := map[string]any{}
		for _, name := range names {
			if text, ok := field(strings.Join(name, ".")); ok {
				put(record, name, text)
			}
		}
		machine := machines.Get().(*vm.VM)
		defer machines.Put(machine)
		holds, err := machine.Run(program, record)
		return err == nil && holds == true
	}, nil
}

// NamesStream reports whether Only asks for the stream of a container: then it decides about standard error too.
func (s *Source) NamesStream() bool {
	tree, err := parser.Parse(s.Only)
	return err == nil && slices.ContainsFunc(fieldsOf(tree), func(name []string) bool {
		switch strings.Join(name, ".") {
		case "stream", "source", "logstream", "log.iostream", "attributes.log.iostream":
			return true
		}
		return false
	})
}

func fieldsOf(tree *parser.Tree) [][]string {
	node := tree.Node
	var f fieldFinder
	ast.Walk(&node, &f)
	return f.names
}

// put sets a field of nested maps. When a text is in the place of an inner map, put leaves the text.
func put(record map[string]any, name []string, text string) {
	for _, part := range name[:len(name)-1] {
		if record[part] == nil {
			record[part] = map[string]any{}
		}
		inner, ok := record[part].(map[string]any)
		if !ok {
			return
		}
		record = inner
	}
	record[name[len(name)-1]] = text
}

// A fieldFinder collects the longest names of fields in an expression.
type fieldFinder struct{ names [][]string }

// Visit is called for the inner nodes first, so a longer name comes after those it begins with.
func (f *fieldFinder) Visit(node *ast.Node) {
	name := fieldName(*node)
	if name == nil {
		return
	}
	f.names = slices.DeleteFunc(f.names, func(other []string) bool {
		return len(other) < len(name) && slices.Equal(other, name[:len(other)])
	})
	f.names = append(f.names, name)
}

// fieldName returns the name that a node refers to, from kubernetes.labels.app or kubernetes.labels["app"]; nil for other
// nodes.
func fieldName(node ast.Node) []string {
	switch n := node.(type) {
	case *ast.IdentifierNode:
		return []string{n.Value}
	case *ast.ChainNode:
		return fieldName(n.Node)
	case *ast.MemberNode:
		property, ok := n.Property.(*ast.StringNode)
		outer := fieldName(n.Node)
		if !ok || outer == nil {
			return nil
		}
		return append(slices.Clip(outer), property.Value)
	}

	return nil
}
