package rule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"

	"weir/internal/yamlfile"
	"weir/pkg/geoip"
)

// With databases of addresses (pkg/geoip), a request has further fields, by its client's address: asn, as_name, country
// and city, as far as the databases have them. In keys such a name then means the database's field, and without one it is
// a further field of the log. In expressions the log's field is always fields.country.

// Located is the set with databases; nil is without any. Its fingerprint is another one for other contents of them, if
// rules use them.
func (s *Set) Located(by *geoip.Databases) *Set {
	located := *s
	located.locate(by)
	if located.fingerprint != "" {
		located.fingerprint = fingerprint(&located)
	}
	return &located
}

func (s *Set) locate(by *geoip.Databases) {
	s.databases = by
	s.places = by.For(s.placesUsed())
	s.allowedSystems = s.systemsAllowed()
}

// GeoIP are the databases that rules of the set use; nil when they use none.
func (s *Set) GeoIP() *geoip.Databases { return s.places }

// Databases are all databases of the set, used or not; nil without any.
func (s *Set) Databases() *geoip.Databases { return s.databases }

// Unlocated returns an error if expressions of rules use fields that no database has.
func (s *Set) Unlocated() error { return s.unlocated().Err() }

func (s *Set) unlocated() (faults yamlfile.Faults) {
	for _, use := range s.placesInExpressions() {
		if !s.databases.Has(use.field) {
			faults = append(faults, unlocated(use.place, use.field))
		}
	}
	return faults
}

func unlocated(place yamlfile.Fault, f geoip.Field) yamlfile.Fault {
	place.What = fmt.Sprintf("no database has the field %s", f)
	place.Remedy = fmt.Sprintf("name a file that has it, as geoip: {databases: [%s]} in weir.yaml (commands that read logs have --geoip); a field of the log is fields.%s", usualFile(f), f)
	return place
}

// placeRemedy is what to write to have a field of databases.
func (l *loader) placeRemedy(f geoip.Field) string {
	remedy := fmt.Sprintf("name a file that has it, as geoip: {databases: [%s]} in weir.yaml", usualFile(f))
	if has := l.places.Fields(); len(has) > 0 {
		remedy += fmt.Sprintf("; the databases there have %s", strings.Join(wordsOf(has), ", "))
	}
	return remedy
}

func wordsOf(fields []geoip.Field) (all []string) {
	for _, f := range fields {
		all = append(all, f.String())
	}
	return all
}

// usualFile is a name as files with the field have it.
func usualFile(f geoip.Field) string {
	switch f {
	case geoip.Country, geoip.City:
		return f.String() + ".mmdb"
	}
	return "asn.mmdb"
}

// A placeUse is a field of databases in an expression.
type placeUse struct {
	field geoip.Field
	place yamlfile.Fault
}

func (s *Set) placesInExpressions() (uses []placeUse) {
	add := func(place yamlfile.Fault, e *expression) {
		for _, f := range e.places() {
			uses = append(uses, placeUse{f, place})
		}
	}
	for _, r := range s.Rules {
		add(r.place, r.match)
		add(r.place, r.cost)
		add(r.place, r.condition())
	}
	for _, a := range s.Allows {
		add(a.place, a.match)
	}
	return uses
}

// placesUsed are the fields that rules name, if databases have them.
func (s *Set) placesUsed() (used []geoip.Field) {
	for _, use := range s.placesInExpressions() {
		used = append(used, use.field)
	}
	for _, r := range s.Rules {
		for _, p := range slices.Concat(r.Key.parts, r.Distinct.parts) {
			if f, ok := geoip.FieldOf(p.name); ok {
				used = append(used, f)
			}
		}
	}
	return used
}

// places are the fields of databases in an expression, each once.
func (e *expression) places() (fields []geoip.Field) {
	if e == nil {
		return nil
	}
	var named namesIn
	ast.Walk(&e.tree, &named)
	for _, name := range named.places {
		if f, _ := geoip.FieldOf(name); !slices.Contains(fields, f) {
			fields = append(fields, f)
		}
	}
	return fields
}

// located is what the databases say about the client's address, valid until the next request.
func (s *subject) located() *geoip.Place {
	if !s.isLocated {
		s.isLocated = true
		s.place = geoip.Place{}
		if s.finder != nil {
			s.place = s.finder.Find(s.plainIP())
		}
	}
	return &s.place
}

// asn is the number of the client's autonomous system, 0 when it is not known.
func (s *subject) asn() int { return int(s.located().Number()) }

// placeText is a field of the databases, valid until the next request.
func (s *subject) placeText(f geoip.Field) string {
	place := s.located()
	if f != geoip.ASN {
		return place.Text(f)
	}
	if place.Number() == 0 {
		return ""
	}
	digits := strconv.AppendUint(s.digits[:0], uint64(place.Number()), 10)
	return unsafe.String(&digits[0], len(digits))
}

// further is a field of the databases, or else of the log.
func (s *subject) further(name string) string {
	if f, ok := geoip.FieldOf(name); ok && s.finder.Has(f) {
		return s.placeText(f)
	}
	return field(s.Request, name)
}

// freeNames renames variables (let) that have the name of a field of databases: rules that were written before there were
// such fields.
type freeNames struct{ names []string }

// Visit renames a variable.
func (v *freeNames) Visit(node *ast.Node) {
	switch node := (*node).(type) {
	case *ast.VariableDeclaratorNode:
		if slices.Contains(v.names, node.Name) {
			node.Name += "_"
		}
	case *ast.IdentifierNode:
		if slices.Contains(v.names, node.Value) {
			node.Value += "_"
		}
	}
}

// freed are the options that rename the variables of an expression.
func freed(tree ast.Node) []expr.Option {
	declared := &declarations{}
	ast.Walk(&tree, declared)
	names := slices.DeleteFunc(declared.names, func(name string) bool { _, ok := geoip.FieldOf(name); return !ok })
	if len(names) == 0 {
		return nil
	}
	return []expr.Option{expr.Patch(&freeNames{names})}
}
