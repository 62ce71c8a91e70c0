package config

import (
	"cmp"
	"regexp"
	"slices"
	"time"

	"weir/internal/duration"
	"weir/internal/yamlfile"
	"weir/pkg/request"
)

// Dedupe counts each request of a source once that stands in it several times.
type Dedupe struct {
	// By is the field with a value that the server gives each request, such as request_id. Default: none, all requests count.
	By string `yaml:"by"`
	// Within is how far apart the times of requests with one value may be, 1s to 1d. Default: 10m.
	Within duration.Duration `yaml:"within"`
	// Values is how many values are remembered, 1000 to 10000000. Default: 1000000.
	Values int `yaml:"values"`
}

const (
	leastValues, mostValues       = 1000, 10_000_000
	shortestWithin, longestWithin = time.Second, 24 * time.Hour
)

// FromYAML sets the defaults and reads the keys.
func (d *Dedupe) FromYAML(v yamlfile.Value) {
	*d = Dedupe{Within: duration.Duration(10 * time.Minute), Values: 1_000_000}
	type plain Dedupe
	if !v.Decode((*plain)(d)) || v.Null() {
		return
	}
	if d.By == "" && !v.Key("by").Faulty() {
		v.Faultf("write dedupe: {by: request_id}", "dedupe names no field")
	}
	if within := time.Duration(d.Within); (within < shortestWithin || within > longestWithin) && !v.Key("within").Faulty() {
		v.Key("within").Faultf("write 1s to 1d; 10m is usual", "%s is not a time within which requests are repeated", v.Key("within").Text())
	}
	if (d.Values < leastValues || d.Values > mostValues) && !v.Key("values").Faulty() {
		v.Key("values").Faultf("write 1000 to 10000000; a value takes about 50 bytes", "%d values cannot be remembered", d.Values)
	}
}

// sharedFields are those that many requests have in common.
var sharedFields = []string{"time", "ip", "user", "method", "host", "path", "query", "status", "bytes", "agent", "referrer", "forwarded"}

// checkDedupe checks that requests have the field, and that the source can remember its values.
func (s *Source) checkDedupe(v yamlfile.Value) {
	place := v.Key("dedupe")
	if !v.Has("dedupe") || s.Dedupe.By == "" || place.Faulty() {
		return
	}
	if s.Kind() == "kafka" && s.Commit == commitGroup {
		place.Faultf("write commit: local, and have one collector read the source", "partitions of a group move between collectors, and the values that were seen do not")
	}
	if slices.Contains(sharedFields, s.Dedupe.By) {
		place.Key("by").Faultf("name a field with a value that the server gives each request, such as request_id", "many requests have the same %s", s.Dedupe.By)
		return
	}
	if s.clientsChoose(cmp.Or(s.LineFields()[s.Dedupe.By], s.Dedupe.By)) {
		place.Key("by").Warnf("log an id that the server makes, such as nginx's $request_id", "clients choose %s themselves: one that sends the same each time counts once", s.Dedupe.By)
	}
	if s.Format == "auto" || v.Key("format").Faulty() {
		return
	}
	names, complete := request.FieldsOf(s.Format, request.Options{Zone: s.Zone.Location, Fields: s.LineFields(), Line: s.Line})
	outer, _ := s.HeaderFields()
	if complete && !slices.Contains(names, s.Dedupe.By) && !slices.Contains(outer, s.Dedupe.By) {
		place.Key("by").Faultf("log it, and name it in format or in fields", "the format has no field %q", s.Dedupe.By)
	}
}

// headerOf is the name of a field that has what a client sent: of nginx, Traefik, HAProxy, or in JSON.
var headerOf = regexp.MustCompile(`^(http|cookie|arg)_|^request_[A-Z]|^captured_request_|(^|[._])headers?\.`)

// traceOf is the name of a trace's id: servers take it from the client.
var traceOf = regexp.MustCompile(`(?i)(^|[._])trace([._]?id|parent)?$`)

// clientsChoose reports whether clients choose the value of a field of the log.
func (s *Source) clientsChoose(name string) bool {
	switch s.Format {
	case "ingress-nginx":
		return name == "req_id" // the client's X-Request-Id, if it sends one
	case "alb":
		return false // the load balancer adds an id of its own to that of a client
	}
	return headerOf.MatchString(name) || traceOf.MatchString(name)
}
