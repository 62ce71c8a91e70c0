// Package request defines a request and the parsers that make one from a line of an access log or an event.
//
// A format (log_format, LogFormat, and the presets that are written as such) is compiled once to a list of steps, each
// a field and the literal that follows it. A line is read once, from literal to literal, without regular expressions. A
// scanner for JSON also reads a record once and keeps the members that a mapping asks for. Around both, a Decoder opens
// the envelopes of log shippers, and Detect recognizes format and envelope from the first lines. A caller that needs
// only a few fields calls Want: of the other fields only their end is searched.
//
// Guarantees: a line gives a request, or ErrNoRequest, or an Unread error with one of Reasons. Nothing is
// guessed: a field that a line does not have is empty, and a line whose time or address cannot be read is unread. No
// input panics, and the time taken grows only with the line's length. Times are milliseconds, rounded down, from
// 1970-01-01 to 2109-05-15. Bytes that are not UTF-8 pass through.
//
// Parse allocates nothing for an ordinary line once the request's fields have grown; texts are parts of the line, and
// only escaped text is copied. The package never reads a clock, starts no goroutine and does no I/O. A Parser or
// Decoder belongs to one goroutine at a time; a Client may be shared. Parsers do not find the client behind proxies:
// they keep the header, and Client.Resolve reads it.
//
// Other programs may import this package (docs/go.md).
package request

import (
	"net/netip"
	"strconv"
)

// A Request is one line of an access log, or one event.
//
// Its strings are parts of the line it was parsed from wherever that is possible. A caller that reuses the buffer of a
// line must be done with the request before the buffer changes.
type Request struct {
	// UnixMilli is the time of the request, rounded down to the millisecond: its end, where the line has that or the
	// request's duration. TookMilli is the duration that was added to the time in the line, else 0.
	UnixMilli, TookMilli int64

	IP        netip.Addr // the client; IPv4-mapped IPv6 is unmapped, zones are dropped; the zero Addr when unknown
	User      string     // empty when unknown or "-"
	Method    string
	Host      string // without the port
	Path      string // without the query, as it was sent or as the server decoded it: see PathDecoded
	Query     string // without the question mark
	Status    int    // 0 when unknown
	Bytes     int64  // of the response; -1 when unknown
	Agent     string
	Referrer  string
	Forwarded string // the header that names the client behind proxies (X-Forwarded-For), as logged
	// PathDecoded means that the log has the decoded path, and that this matters: nginx's $uri, Apache's %U,
	// cs-uri-stem of IIS.
	PathDecoded bool
	Fields      []Field // further fields of the line, by the names the format gives them; those without a value are left out
	Take        *Take   // of an attempt at an inline rule; nil in logs

	cut  bool   // the line was cut off: the fields behind the cut are not known
	open string // the line, if it is long and its last field may have been cut off
}

// A Field is one further field of a request.
type Field struct{ Name, Value string }

// Reset clears r and keeps the memory of its fields.
func (r *Request) Reset() {
	*r = Request{Bytes: -1, Fields: r.Fields[:0]}
}

// Field returns the text of a field by its name in rules: ip, user, method, host, path, query, status, bytes, agent,
// referrer, or the name of a further field. It is false for an unknown or empty field.
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

// Has reports whether Field returns a text that is not empty.
func (r *Request) Has(name string) bool {
	switch name {
	case "ip":
		return r.IP.IsValid()
	case "status":
		return r.Status != 0
	case "bytes":
		return r.Bytes >= 0
	}
	text, _ := r.Field(name)
	return text != ""
}

func present(known bool, text func() string) (string, bool) {
	if !known {
		return "", false
	}
	return text(), true
}

// text is the field of r with the given name, or nil.
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
	if value = bare(value); value != "" && value != "-" {
		r.Fields = append(r.Fields, Field{name, value})
	}
}
