package rule

import (
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"

	"weir/internal/nearest"
	"weir/internal/yamlfile"
	"weir/pkg/geoip"
)

// Any word may name a further field. So a mistake in a name is accepted, and the rule then counts nothing. This file
// finds such names and warns of them.

// Fields are what is known about the fields of the requests that rules are for.
type Fields struct {
	Names    []string // fields that requests can have
	Complete bool     // requests have no others

	ofBlocks bool // there are no requests but blocks, which have an address and its place
}

// usualNames are the names that other programs have for our fields.
var usualNames = map[string]string{
	"client_ip": "ip", "clientip": "ip", "remote_addr": "ip", "remote_ip": "ip", "src_ip": "ip", "source_ip": "ip", "ip_address": "ip", "ipaddress": "ip", "addr": "ip",
	"username": "user", "user_name": "user", "remote_user": "user",
	"http_host": "host", "hostname": "host", "vhost": "host",
	"uri": "path", "url": "path", "request_uri": "path",
	"verb": "method", "request_method": "method",
	"status_code": "status",
	"user_agent":  "agent", "useragent": "agent", "http_user_agent": "agent",
	"referer": "referrer", "http_referer": "referrer",
}

// usualPlaces are names that databases of addresses have for our fields.
var usualPlaces = map[string]string{
	"as": "asn", "as_number": "asn", "asnumber": "asn", "autonomous_system_number": "asn",
	"as_org": "as_name", "asn_name": "as_name", "asn_org": "as_name", "autonomous_system_organization": "as_name",
	"country_code": "country", "country_iso_code": "country", "geoip_country_code": "country", "city_name": "city",
}

// meant is the known field that a name most likely stands for, or "". A header has the name of nginx's variable.
func meant(name string, known []string) string {
	lower := strings.ToLower(name)
	if usual := usualNames[lower]; usual != "" {
		return usual
	}
	if usual := usualPlaces[lower]; slices.Contains(known, usual) {
		return usual
	}
	header := strings.ReplaceAll(lower, "-", "_")
	for _, candidate := range []string{header, "http_" + header} {
		if candidate != name && slices.Contains(known, candidate) {
			return candidate
		}
	}
	if strings.HasPrefix(lower, "x-") {
		return "http_" + header
	}
	return nearest.Word(name, known)
}

// checkFields warns of fields that no request has, and of names that were probably meant to be others.
func (l *loader) checkFields() {
	for _, r := range l.rules {
		fields := l.fields
		if !r.countsRequestsOfLogs() {
			fields.Complete = false // requests of enforcers have other fields than those of logs
			fields.ofBlocks = r.CountsBlocks()
		}
		for i, place := range slices.Concat(r.Key.places, r.Distinct.places) {
			l.checkField(place, slices.Concat(r.Key.parts, r.Distinct.parts)[i].name, fields, true)
		}
		for _, e := range []*expression{r.match, r.cost, r.condition()} {
			l.checkExpression(r.place, e, fields)
		}
	}
	for i := range l.allows {
		l.checkExpression(l.allows[i].place, l.allows[i].Match.compiled, l.fields)
	}
}

// checkExpression checks the names of an expression, each once. A field that is only there in some logs may be asked
// for as not there, so of the names that every request knows none is checked.
func (l *loader) checkExpression(place yamlfile.Fault, e *expression, fields Fields) {
	if e == nil {
		return
	}
	var named namesIn
	ast.Walk(&e.tree, &named)
	slices.Sort(named.further)
	for _, name := range slices.Compact(named.further) {
		l.checkField(place, name, fields, false)
	}
}

func (l *loader) checkField(at yamlfile.Fault, name string, fields Fields, isKey bool) {
	isKnown, has := slices.Contains(keyWords, name), name
	place, isPlace := geoip.FieldOf(name)
	if name == "raw_path" {
		has = "path"
	}
	switch {
	case isPlace && isKey && l.places.Has(place):
	case isPlace && fields.ofBlocks:
		l.warn(at, "without a database no block has the field "+name+", and the rule blocks nothing", l.placeRemedy(place))
	case slices.Contains(fields.Names, has) || name == refusedField || isKnown && !fields.Complete:
	case fields.Complete:
		remedy := "the sources have " + strings.Join(fields.Names, ", ")
		if near := meant(name, fields.Names); near != "" && slices.Contains(fields.Names, near) {
			remedy = "did you mean " + near + "? " + remedy
		}
		if isPlace && isKey {
			remedy += "; for that of the client's address " + l.placeRemedy(place)
		}
		l.warn(at, "no source has the field "+name, remedy)
	case isPlace && isKey:
		l.warn(at, name+" is read as a further field of that name", "for that of the client's address "+l.placeRemedy(place))
	default:
		near := meant(name, slices.Concat(keyWords, fields.Names, wordsOf(l.places.Fields())))
		if further, inExpressions := strings.CutPrefix(name, "fields."); inExpressions && isKey {
			near = further
		}
		if near != "" {
			l.warn(at, name+" is read as a further field of that name", "did you mean "+near+"?")
		}
	}
}
