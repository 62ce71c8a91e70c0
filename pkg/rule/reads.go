package rule

import (
	"slices"

	"github.com/expr-lang/expr/ast"

	"weir/pkg/geoip"
)

// Reads are the names of the fields that Judge.Hits reads from requests, including further ones; nil means any field of
// a request. The time is always read.
func (s *Set) Reads() []string {
	reads := reader{names: []string{}, places: s.places}
	for _, rule := range s.Rules {
		if !rule.CountsLog() {
			continue
		}
		if rule.Count == Served {
			reads.add(refusedField, "status")
		}
		reads.asked(rule)
	}
	for _, allow := range s.Allows {
		reads.allow(allow)
	}
	reads.add(s.hides...) // evidence is without their values
	if reads.any {
		return nil
	}
	slices.Sort(reads.names)
	return slices.Compact(reads.names)
}

// An Asked is a field of requests, and the names of the rules that use it in match, key, cost, distinct or share; the name allow stands
// for allow entries. Rules that do not count the log are left out.
type Asked struct {
	Field string
	By    []string
}

// Asks are the fields that rules and allow entries use by name.
func (s *Set) Asks() (all []Asked) {
	add := func(by string, r *reader) {
		for _, name := range r.names {
			i := slices.IndexFunc(all, func(a Asked) bool { return a.Field == name })
			switch {
			// A variable of let, or a function.
			case r.variables[name]:
			case i < 0:
				all = append(all, Asked{name, []string{by}})
			case !slices.Contains(all[i].By, by):
				all[i].By = append(all[i].By, by)
			}
		}
	}

	for _, rule := range s.Rules {
		if !rule.countsRequestsOfLogs() {
			continue
		}
		r := &reader{variables: map[string]bool{}, places: s.places}
		r.asked(rule)
		add(rule.Name, r)
	}

	for _, allow := range s.Allows {
		r := &reader{variables: map[string]bool{}}
		r.allow(allow)
		add("allow", r)
	}

	return all
}

func (r *Rule) countsRequestsOfLogs() bool { return r.CountsLog() && !r.ofAttempts }

// A reader collects the fields that are read.
type reader struct {
	names  []string
	any    bool             // a further field whose name is only known at run time
	places *geoip.Databases // their fields are read from the address

	variables map[string]bool // names in expressions that are not fields, if they are wanted
}

func (r *reader) add(names ...string) {
	for _, name := range names {
		if name == "raw_path" {
			name = "path"
		}
		r.names = append(r.names, name)
	}
}

// asked adds the fields that decide whether a request is a hit, and those of its key.
func (r *reader) asked(rule *Rule) {
	for _, part := range slices.Concat(rule.Key.parts, rule.Distinct.parts) {
		if f, ok := geoip.FieldOf(part.name); ok && r.places.Has(f) {
			r.add("ip")
			continue
		}
		r.add(part.name)
	}
	r.expression(rule.match)
	r.expression(rule.cost)
	r.expression(rule.condition())
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

// expression adds every name in it. The name of a further field is known before when it is constant: fields.name.
func (r *reader) expression(e *expression) {
	if e == nil {
		return
	}
	named := namesIn{}
	ast.Walk(&e.tree, &named)
	for _, name := range named.all {
		if slices.Contains(named.places, name) && !slices.Contains(named.further, name) {
			name = "ip"
		}
		r.add(name)
		if r.variables != nil && !slices.Contains(identifiers, name) && !slices.Contains(named.further, name) {
			r.variables[name] = true
		}
	}
	r.any = r.any || named.dynamic > 0
}

type namesIn struct {
	all     []string
	further []string // of them, those behind fields
	places  []string // and those of databases
	dynamic int      // occurrences of fields without a constant name behind it
}

// Visit visits the nodes within a node before the node itself.
func (n *namesIn) Visit(node *ast.Node) {
	switch node := (*node).(type) {
	case *ast.IdentifierNode:
		if node.Value == "fields" {
			n.dynamic++
			return
		}
		n.all = append(n.all, node.Value)
		if _, ok := geoip.FieldOf(node.Value); ok {
			n.places = append(n.places, node.Value)
		}
	case *ast.MemberNode:
		of, ok := node.Node.(*ast.IdentifierNode)
		name, constant := node.Property.(*ast.StringNode)
		if ok && constant && of.Value == "fields" {
			n.all, n.further = append(n.all, name.Value), append(n.further, name.Value)
			n.dynamic--
		}
	}
}
