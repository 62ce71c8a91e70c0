package offline

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"weir/pkg/backtest"
	"weir/pkg/request"
)

// A line is the result for one line of a log, as `weir parse --json` writes it, without fields that are not known.
type line struct {
	Input     string            `json:"input"`
	Line      int               `json:"line"`
	Unread    string            `json:"unread,omitempty"` // the reason; then only why and sample follow
	Why       string            `json:"why,omitempty"`
	Sample    string            `json:"sample,omitempty"` // the beginning of a line that was not read, secrets masked
	Time      *backtest.Instant `json:"time,omitempty"`
	IP        string            `json:"ip,omitempty"`
	Proxy     bool              `json:"proxy,omitempty"` // ip is a trusted proxy's own, because no client behind it is known
	User      string            `json:"user,omitempty"`
	Method    string            `json:"method,omitempty"`
	Host      string            `json:"host,omitempty"`
	Path      string            `json:"path,omitempty"`
	Query     string            `json:"query,omitempty"`
	Status    int               `json:"status,omitempty"`
	Bytes     *int64            `json:"bytes,omitempty"`
	Agent     string            `json:"agent,omitempty"`
	Referrer  string            `json:"referrer,omitempty"`
	Forwarded string            `json:"forwarded,omitempty"`
	Fields    map[string]string `json:"fields,omitempty"`
	Hits      []lineHit         `json:"hits,omitempty"`
	Uncounted []uncounted       `json:"uncounted,omitempty"`

	text   string
	fields []request.Field // in the line's order
}

// A lineHit is a hit of the line under a rule.
type lineHit struct {
	Rule   string            `json:"rule"`
	Key    string            `json:"key"`
	Fields map[string]string `json:"fields"`
	Cost   int64             `json:"cost"`
}

// An uncounted is a rule under which the line does not count, and why.
type uncounted struct {
	Rule   string `json:"rule"`
	Reason string `json:"reason"`
	Why    string `json:"why"`
}

// noRequest is the reason of lines without a request, such as comments.
const noRequest = "none"

// fail notes why the line was not read.
func (l *line) fail(err error) {
	l.Unread, l.Why, l.Sample = cmp.Or(request.Reason(err), noRequest), err.Error(), request.Sample(l.text)
}

// fill notes what was read of the line.
func (l *line) fill(r *request.Request) {
	l.Time = new(backtest.Instant(r.UnixMilli))
	if r.IP.IsValid() {
		l.IP = r.IP.String()
	}

	l.User = r.User
	l.Method = r.Method
	l.Host = r.Host
	l.Path = r.Path
	l.Query = r.Query
	l.Status = r.Status
	l.Agent = r.Agent
	l.Referrer = r.Referrer
	l.Forwarded = r.Forwarded
	if r.Bytes >= 0 {
		l.Bytes = &r.Bytes
	}

	l.fields = r.Fields
	if len(r.Fields) > 0 {
		l.Fields = map[string]string{}
	}

	for _, field := range r.Fields {
		l.Fields[field.Name] = field.Value
	}
}

// String returns the line's fields as name=value.
func (l *line) String() string {
	var b strings.Builder
	b.WriteString(l.Time.String())
	add := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, " %s=%s", name, quoteValue(value))
		}
	}

	add("ip", l.IP)
	if l.Proxy {
		add("proxy", "true")
	}

	add("user", l.User)
	add("method", l.Method)
	add("host", l.Host)
	add("path", l.Path)
	add("query", l.Query)
	if l.Status > 0 {
		add("status", strconv.Itoa(l.Status))
	}
	if l.Bytes != nil {
		add("bytes", strconv.FormatInt(*l.Bytes, 10))
	}

	add("agent", l.Agent)
	add("referrer", l.Referrer)
	add("forwarded", l.Forwarded)
	for _, field := range l.fields {
		add(field.Name, field.Value)
	}

	return b.String()
}

// quoteValue puts quotes around a value that would not be one word without them.
func quoteValue(value string) string {
	if strings.ContainsAny(value, " \"=\\") || strconv.Quote(value) != `"`+value+`"` {
		return strconv.Quote(value)
	}
	return value
}
