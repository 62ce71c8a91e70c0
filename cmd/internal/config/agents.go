package config

import (
	"strings"

	"weir/internal/yamlfile"
)

// NFTables keeps the list in this machine's firewall.
type NFTables struct {
	// On turns this on. Default: false.
	On bool `yaml:"on"`
	// AtExit is what happens to the table when the enforcer ends: keep leaves its elements until their timeouts, clear
	// removes them. Default: keep.
	AtExit AtExit `yaml:"at_exit"`
}

// An AtExit is keep or clear.
type AtExit string

// FromYAML reads keep or clear.
func (a *AtExit) FromYAML(v yamlfile.Value) { *a = AtExit(oneOf(v, "keep", "clear")) }

// HAProxy keeps the list in a map of HAProxy.
type HAProxy struct {
	// Socket is the path of HAProxy's stats socket, or its host:port. Default: none, and no HAProxy
	// gets the list.
	Socket string `yaml:"socket"`
	// Map is the file of the map, as HAProxy's configuration names it.
	Map string `yaml:"map"`
	// Value is the value of an address in the map: until, the end of its block in Unix seconds, or rule, the rule's name.
	// Default: until.
	Value MapValue `yaml:"value"`
}

// On reports whether a HAProxy gets the list.
func (h *HAProxy) On() bool { return h.Socket != "" }

// Validate checks that nothing is missing.
func (h *HAProxy) Validate(v yamlfile.Value) {
	if (h.Socket == "") != (h.Map == "") {
		v.Faultf("give both or neither", "only one of socket and map is given")
	}
	if strings.ContainsAny(h.Map, " ;\\\n") {
		v.Key("map").Faultf("choose a path without them", "HAProxy's runtime API takes no spaces, semicolons and backslashes in %q", h.Map)
	}
	if h.Socket == "" || strings.Contains(h.Socket, "/") || !strings.Contains(h.Socket, ":") {
		return
	}
	if err := checkHostPort(h.Socket, "9999"); err != nil {
		v.Key("socket").Fault(err)
	}
}

// A MapValue is until or rule.
type MapValue string

// FromYAML reads until or rule.
func (m *MapValue) FromYAML(v yamlfile.Value) { *m = MapValue(oneOf(v, "until", "rule")) }

// paths returns the paths to resolve: the map, and the socket unless it is a host and port.
func (h *HAProxy) paths() []*string {
	if strings.Contains(h.Socket, ":") && !strings.Contains(h.Socket, "/") {
		return []*string{&h.Map}
	}
	return []*string{&h.Map, &h.Socket}
}
