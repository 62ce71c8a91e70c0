package request

import "slices"

// outerSetters set those of our own fields that may come from outside of a line.
var outerSetters = map[string]func(*step, *Request, string) *Unread{
	"user": setUser, "method": setMethod, "host": setHost, "agent": setAgent, "referrer": setReferrer,
}

// notOuter are the fields that only a line can have, because others depend on them.
var notOuter = []string{"time", "ip", "path", "raw_path", "query", "status", "bytes", "forwarded", "request", "uri"}

// MayBeOuter reports whether SetOuter sets a field.
func MayBeOuter(name string) bool { return !slices.Contains(notOuter, name) }

// SetOuter sets a field to a text that stands next to the line, such as a record's header, whatever the line has for it. An
// empty text removes it. No text changes another field.
func (r *Request) SetOuter(name, text string) {
	if at := r.text(name); at != nil {
		*at = ""
		if set := outerSetters[name]; set != nil {
			_ = set(nil, r, text) // a text that cannot be one leaves it empty
		}
		return
	}
	r.Fields = slices.DeleteFunc(r.Fields, func(f Field) bool { return f.Name == name })
	r.add(name, text)
}
