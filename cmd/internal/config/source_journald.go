package config

import (
	"slices"
	"strings"

	"weir/internal/yamlfile"
)

// Journald configures a source that reads journals of systemd.
type Journald struct {
	// Unit are units whose entries are read: nginx, or nginx.service. Default: all.
	Unit Texts `yaml:"unit"`
	// Identifier are the names that programs give syslog: nginx. Default: all.
	Identifier Texts `yaml:"identifier"`
	// Match are further conditions, FIELD=value: CONTAINER_NAME=shop. Default: none.
	Match Texts `yaml:"match"`
	// Folder is the folder of the journal files. Default: that of this machine.
	Folder string `yaml:"folder"`
	// Fields are fields of an entry that its record has next to MESSAGE. Default: none, and MESSAGE is the record.
	Fields Texts `yaml:"fields"`
}

// journalLine is the member of a record with fields that has the line.
const journalLine = "MESSAGE"

// LineKey returns the path of the line in records of JSON; empty where the envelope has it in its usual place.
func (s *Source) LineKey() string {
	if s.Line == "" && len(s.Journald.Fields) > 0 {
		return journalLine
	}
	return s.Line
}

func (s *Journald) given() bool {
	return len(s.Unit)+len(s.Identifier)+len(s.Match)+len(s.Fields) > 0 || s.Folder != ""
}

// unitKinds end the names of units.
var unitKinds = []string{".service", ".socket", ".scope", ".slice", ".mount", ".timer", ".target", ".swap", ".path", ".device", ".automount"}

// Matches returns the conditions in the form of journalctl: the same field again is another value of it.
func (s *Journald) Matches() (matches []string) {
	for _, unit := range s.Unit {
		if !slices.ContainsFunc(unitKinds, func(kind string) bool { return strings.HasSuffix(unit, kind) }) {
			unit += ".service"
		}
		matches = append(matches, "_SYSTEMD_UNIT="+unit)
	}
	for _, identifier := range s.Identifier {
		matches = append(matches, "SYSLOG_IDENTIFIER="+identifier)
	}
	return append(matches, s.Match...)
}

// Validate checks the names of units and fields.
func (s *Journald) Validate(v yamlfile.Value) {
	if len(s.Unit)+len(s.Identifier)+len(s.Match) == 0 && s.Folder == "" && !v.Faulty() {
		v.Faultf("write journald: {unit: nginx}, {identifier: nginx}, or {folder: /var/log/journal/remote}", "the source would read what all programs of this machine log")
	}
	// The journal itself writes the fields that begin with a line, and takes the others from the program.
	trusted := func(match string) bool { return strings.HasPrefix(match, "_") }
	if !v.Faulty() && !slices.ContainsFunc(s.Matches(), trusted) {
		v.Warnf("add unit: nginx, or the unit of the container engine, as unit: docker",
			"any program of the machine may write such entries to the journal, and so have any client blocked")
	}
	for _, unit := range s.Unit {
		if strings.ContainsAny(unit, "*?[/ =") {
			v.Key("unit").Faultf("write the names of units, as systemctl shows them", "%q is not the name of a unit", unit)
		}
	}
	for _, match := range s.Match {
		if name, _, ok := strings.Cut(match, "="); !ok || !isField(name) {
			v.Key("match").Faultf("write FIELD=value, as CONTAINER_NAME=shop", "%q is not a condition on a field", match)
		}
	}
	for _, name := range s.Fields {
		if !isField(name) {
			v.Key("fields").Faultf("write names as journalctl -o verbose shows them: CONTAINER_NAME", "%q is not the name of a field", name)
		}
	}
}

// isField reports whether a text can be the name of a journal's field.
func isField(name string) bool {
	return name != "" && len(name) <= 64 && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}
