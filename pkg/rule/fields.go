package rule

import (
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"

	"weir/internal/nearest"
	"weir/internal/yamlfile"
)

// Any word may name a further field. So a mistake in a name is accepted, and the rule then counts nothing. This file
// finds such names and warns of them.

// Fields are what is known about the fields of the requests that rules are for.
type Fields struct {
	Names    []string // fields that requests can have
	Complete bool     // requests have no others
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

// meant is the known field that a name most likely stands for, or "". A header has the name of nginx's variable.
func meant(name string, known []string) string {
	lower := strings.ToLower(name)
	if usual := usualNames[lower]; usual != "" {
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
		}
		for i, place := range slices.Concat(r.Key.places, r.Distinct.places) {
			l.checkField(place, slices.Concat(r.Key.parts, r.Distinct.parts)[i].name, fields)
		}
		for _, e := range []*expression{r.match, r.cost} {
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
		l.checkField(place, name, fields)
	}
}

func (l *loader) checkField(place yamlfile.Fault, name string, fields Fields) {
	isKnown, has := slices.Contains(keyWords, name), name
	if name == "raw_path" {
		has = "path"
	}
	switch {
	case slices.Contains(fields.Names, has) || name == refusedField || isKnown && !fields.Complete:
	case fields.Complete:
		remedy := "the sources have " + strings.Join(fields.Names, ", ")
		if near := meant(name, fields.Names); near != "" && slices.Contains(fields.Names, near) {
			remedy = "did you mean " + near + "? " + remedy
		}
		l.warn(place, "no source has the field "+name, remedy)
	default:
		if near := meant(name, append(slices.Clone(keyWords), fields.Names...)); near != "" {
			l.warn(place, name+" is read as a further field of that name", "did you mean "+near+"?")
		}
	}
}
