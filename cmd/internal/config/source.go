package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // a container may have no zones of its own

	"github.com/expr-lang/expr"

	"weir/internal/duration"
	"weir/internal/nearest"
	"weir/internal/yamlfile"
	"weir/pkg/request"
)

// checkReading checks the settings for reading lines.
func (s *Source) checkReading(v yamlfile.Value) {
	options := request.Options{Zone: s.Zone.Location, Fields: s.LineFields(), Line: s.Line}
	if known := append(request.Envelopes(), "auto"); !slices.Contains(known, s.Envelope) {
		v.Key("envelope").Faultf(nearest.Suggest(s.Envelope, known, "write one of "), "the envelope %q is not known", s.Envelope)
	}

	if kind := s.Kind(); kind == "otlp" || kind == "loki" {
		switch s.Envelope {
		case "auto":
			s.Envelope = "otlp"
		case "otlp":
		default:
			v.Key("envelope").Faultf("leave it out", "the envelope of a source of the kind %s is otlp", kind)
		}
	}

	if s.Format != "auto" {
		if _, err := request.NewParser(s.Format, options); err != nil {
			v.Key("format").Fault(err)
		}
	}

	if problem := request.CheckLine(s.Line, s.Envelope); problem != nil {
		v.Key("line").Faultf("write it as payload.text", "%s", problem)
	}

	if s.Only == "" {
		return
	}
	if _, err := expr.Compile(s.Only, expr.AllowUndefinedVariables(), expr.AsBool()); err != nil {
		what, _, _ := strings.Cut(err.Error(), "\n")
		v.Key("only").Faultf(`write it as kubernetes.labels.app == "shop"`, "the expression cannot be read: %s", what)
		return
	}
	s.warnNever(v)
}

// checkGuard checks the addresses of sources that accept lines.
func (s *Source) checkGuard(v yamlfile.Value) {
	switch s.Kind() {
	case "http":
		guard(v.Key("http"), s.HTTP, "add keys, a file of API keys, or tls with clients, or listen on 127.0.0.1", s.Keys != "" || s.TLS.Clients != "")
	case "otlp":
		guard(v.Key("otlp"), s.OTLP, "add keys, a file of API keys, or tls with clients, or listen on 127.0.0.1", s.Keys != "" || s.TLS.Clients != "")
	case "loki":
		guard(v.Key("loki"), s.Loki, "add keys, a file of API keys, or tls with clients, or listen on 127.0.0.1", s.Keys != "" || s.TLS.Clients != "")
	case "syslog":
		s.checkSyslog(v)
	}
}

func (s *Source) checkSyslog(v yamlfile.Value) {
	place := v.Key("syslog")
	scheme, address, _ := strings.Cut(s.Syslog, "://")
	switch scheme {
	// The file system decides who may send, so there is no guard.
	case "unix", "unixstream":
		if !strings.HasPrefix(address, "/") {
			place.Faultf("write it as "+scheme+":///run/weir/syslog.sock", "%q names no socket", s.Syslog)
		}
		return
	case "udp", "tcp":
		if s.TLS != (SourceTLS{}) {
			v.Key("tls").Faultf("write syslog: \"tls://"+address+"\"", "tls is given, but %s is not encrypted", scheme)
		}
	case "tls":
		if s.TLS.Cert == "" {
			place.Faultf("add tls: {cert: c.pem, key: k.pem}", "a source with tls:// has no certificate")
		}
	default:
		place.Faultf(`write it as "udp://127.0.0.1:5514", or with tcp, tls, unix or unixstream`, "%q is not an address for syslog", s.Syslog)
		return
	}

	guard(place, address, "add from, the addresses that may send, or listen on 127.0.0.1", len(s.From.Prefixes)+len(s.From.Files) > 0 || s.TLS.Clients != "")
}

// A Zone is a time zone.
type Zone struct{ *time.Location }

// FromYAML reads a zone's name.
func (z *Zone) FromYAML(v yamlfile.Value) {
	location, err := LoadZone(v.Text())
	if err != nil {
		v.Fault(err)
	}
	*z = Zone{location}
}

// LoadZone finds a time zone by its name.
func LoadZone(name string) (*time.Location, error) {
	location, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("the time zone %q is not known; write it as Europe/Berlin", name)
	}
	return location, nil
}

// Start is where a source begins when no position is stored for it: earliest, latest, or some time before now.
type Start struct {
	Earliest bool
	Latest   bool
	Before   time.Duration // when it is neither
}

// FromYAML reads earliest, latest or a duration.
func (s *Start) FromYAML(v yamlfile.Value) {
	switch text := v.Text(); text {
	case "earliest":
		*s = Start{Earliest: true}
	case "latest":
		*s = Start{Latest: true}
	default:
		before, err := duration.Parse(text)
		if err != nil || before == duration.Forever {
			v.Faultf("write earliest, latest, or a time before now, such as 25h", "%q is not a place to start", text)
		}
		*s = Start{Before: before}
	}
}
