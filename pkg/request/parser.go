package request

import (
	"fmt"
	"strings"
	"time"
)

// A Parser makes requests from lines of one format.
type Parser interface {
	// Parse resets r and fills it from the line. The error is ErrNoRequest or an *Unread; r is then undefined. The
	// strings of r are parts of the line, except those that had to be unescaped, which are valid until the parser reads
	// the next line. Nothing is allocated for an ordinary line once r.Fields has grown. A Parser is for one goroutine
	// at a time.
	Parse(line string, r *Request) error
	// Want sets which fields of requests are read from the next line on, by their names: user, method, host, path,
	// query, agent, referrer and those of further fields. nil means all and is the default. The others may be left
	// empty, except time, ip, status, bytes and forwarded, which are always filled. Want does not change which lines
	// can be read, or the reason why one cannot.
	Want(names []string)
}

// Options are settings that a format does not contain.
type Options struct {
	Zone   *time.Location    // of times without a zone; nil is UTC
	Fields map[string]string // our name of a field → the format's own name of it (user: http_x_user; in JSON user: jwt.sub)
	Header string            // the header that fills Forwarded, in any case; empty is X-Forwarded-For
	Line   string            // the key of the line in records of JSON, dotted; empty is the envelope's own
	Stderr bool              // also read a container's standard error where it could have lines that a client wrote

	forgeable bool // also make formats that a client can forge: only to detect them
}

func (o Options) zone() *time.Location {
	if o.Zone == nil {
		return time.UTC
	}
	return o.Zone
}

// header is the name under which the header for Forwarded stands among fields: x_forwarded_for.
func (o Options) header() string {
	if o.Header == "" {
		return "x_forwarded_for"
	}
	return underscored(o.Header)
}

// underscored writes a header's name as nginx names its variable: X-Api-Key is x_api_key.
func underscored(header string) string {
	return strings.ReplaceAll(strings.ToLower(header), "-", "_")
}

// NewParser makes the parser of a format: a preset's name, an nginx log_format or an Apache LogFormat as it
// stands in the server's configuration (with or without the directive and the quotes), or a "#Fields:" line.
func NewParser(format string, o Options) (Parser, error) {
	format = strings.TrimSpace(format)
	for _, p := range presets {
		if p.name == format {
			return p.parser(o)
		}
	}

	for _, p := range forgeablePresets {
		if p.name == format {
			return p.make(o)
		}
	}

	// An nginx format may contain a percent sign as text, and a LogFormat a dollar only in a literal: so the dollar
	// decides, unless the directive is there.
	switch {
	case strings.HasPrefix(format, fieldsDirective):
		// Choose the dialect by the names of the columns.
		names := strings.TrimPrefix(format, fieldsDirective)
		if strings.Contains(names, "x-edge-") {
			return w3c(names, dialectCloudFront)(o)
		}
		return w3c(names, dialectIIS)(o)
	case strings.HasPrefix(format, "LogFormat") || !strings.Contains(format, "$") && strings.Contains(format, "%"):
		return compiled(apacheLayout, format, o)
	case strings.Contains(format, "$"):
		return compiled(nginxLayout, format, o)
	}

	return nil, fmt.Errorf("unknown format %.100q: it is no log_format, no LogFormat and none of %s",
		format, strings.Join(Presets(), ", "))
}

// compiled makes the scanner of a format that one of the layouts reads.
func compiled(read func(string, Options) (layout, error), format string, o Options) (Parser, error) {
	l, err := read(format, o)
	if err != nil {
		return nil, fmt.Errorf("format %.100q: %w", format, err)
	}
	s, err := compile(l, o)
	if err != nil {
		return nil, fmt.Errorf("format %.100q: %w", format, err)
	}
	return s, nil
}
