// Package request holds one request and the parsers that make one from a line of an access log or an event.
package request

import (
	"net/netip"
	"strconv"
)

// A Request is one line of an access log, or one event.
//
// Its strings are parts of the line it was parsed from wherever that is possible: who reads lines into a
// buffer that is used again must be done with the request before the buffer changes.
type Request struct {
	UnixMilli int64      // when, floored to the millisecond
	IP        netip.Addr // the client; IPv4-mapped IPv6 is unmapped, zones are dropped; the zero Addr when unknown
	User      string     // empty when unknown or "-"
	Method    string
	Host      string // without the port
	Path      string // without the query, as it was sent
	Query     string // without the question mark
	Status    int    // 0 when unknown
	Bytes     int64  // of the response; -1 when unknown
	Agent     string
	Referrer  string
	Forwarded string  // the header that names the client behind proxies (X-Forwarded-For), as logged
	Fields    []Field // further fields of the line, by the names the format gives them; those without a value are left out
}

// A Field is one further field of a request.
type Field struct{ Name, Value string }

// Reset makes r a request of which nothing is known, and keeps the memory of its fields.
func (r *Request) Reset() {
	*r = Request{Bytes: -1, Fields: r.Fields[:0]}
}

// Field gives the text of one field by the name that rules have for it: ip, user, method, host, path, query,
// status, bytes, agent, referrer, or the name of a further field. What is unknown or empty is not there.
func (r *Request) Field(name string) (string, bool) {
	switch name {
	case "ip":
		return present(r.IP.IsValid(), r.IP.String)
	case "status":
		return present(r.Status != 0, func() string { return strconv.Itoa(r.Status) })
	case "bytes":
		return present(r.Bytes >= 0, func() string { return strconv.FormatInt(r.Bytes, 10) })
	}
	if text := r.text(name); text != nil {
		return *text, *text != ""
	}
	for i := range r.Fields {
		if r.Fields[i].Name == name {
			return r.Fields[i].Value, true
		}
	}
	return "", false
}

func present(known bool, text func() string) (string, bool) {
	if !known {
		return "", false
	}
	return text(), true
}

// text is the field of r that holds the text of the given name; nil when name is no such field.
func (r *Request) text(name string) *string {
	switch name {
	case "user":
		return &r.User
	case "method":
		return &r.Method
	case "host":
		return &r.Host
	case "path":
		return &r.Path
	case "query":
		return &r.Query
	case "agent":
		return &r.Agent
	case "referrer":
		return &r.Referrer
	}
	return nil
}

// add keeps a further field that has a value.
func (r *Request) add(name, value string) {
	if value != "" && value != "-" {
		r.Fields = append(r.Fields, Field{name, value})
	}
}
