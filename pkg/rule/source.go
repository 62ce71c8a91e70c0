package rule

import (
	"path/filepath"

	"weir/internal/yamlfile"
	"weir/pkg/geoip"
)

// A Source is the rules of a configuration: a path, a glob, a list of them, or the rules themselves:
//
//	rules: rules.yaml
//	rules: [base.yaml, rules.d/*.yaml]
//	rules: [{name: per-ip, key: ip, limits: [10/min]}]
//	rules: {rules: [...], allow: [...]}
type Source struct {
	Patterns []string
	Fields   Fields           // what is known of the requests, for warnings
	GeoIP    *geoip.Databases // those of the configuration; nil when they are not known

	// GeoIPUnread says that there are databases, which were not read: LoadToAsk.
	GeoIPUnread bool

	embedded *fileSpec
	text     []byte // of embedded, as a rules file
	file     string
}

// FromYAML reads any of its forms.
func (s *Source) FromYAML(v yamlfile.Value) {
	*s = Source{file: v.Place().File}
	elements, isList := v.List()
	_, isMap := v.Map()
	switch {
	case isMap:
		s.embedded = &fileSpec{}
		v.Decode(s.embedded)
		s.keep(v, "")
	// One map makes it a list of rules: then a path in it is reported where it stands.
	case isList && anyIsMap(elements):
		s.embedded = &fileSpec{}
		v.Decode(&s.embedded.Rules)
		s.keep(v, `{"rules": `)
	case isList:
		v.Decode(&s.Patterns)
	default:
		s.Patterns = []string{v.Text()}
	}
}

// keep keeps the text of rules within a configuration; before a list it writes the beginning of a map.
func (s *Source) keep(v yamlfile.Value, before string) {
	if v.Faulty() {
		return
	}
	s.text = append([]byte(before), v.JSON()...)
	if before != "" {
		s.text = append(s.text, '}')
	}
}

func anyIsMap(elements []yamlfile.Value) bool {
	for _, element := range elements {
		if _, isMap := element.Map(); isMap {
			return true
		}
	}
	return false
}

// Load reads the rules; relative paths are relative to folder.
func (s *Source) Load(folder string) (*Set, []yamlfile.Fault, error) {
	return s.load(folder, newLoader())
}

// LoadToAsk is Load for programs that are no part of Weir. They need not be able to read the key of secret rules: without
// it the set makes no keys of these rules, leaves typed ones to the parts, and has no fingerprint.
func (s *Source) LoadToAsk(folder string) (*Set, []yamlfile.Fault, error) {
	l := newLoader()
	l.lenient = true
	return s.load(folder, l)
}

func (s *Source) load(folder string, l *loader) (*Set, []yamlfile.Fault, error) {
	l.fields, l.places, l.placesUnread = s.Fields, s.GeoIP, s.GeoIPUnread
	if s.embedded != nil {
		l.add(s.file, *s.embedded)
		set, warnings, err := l.finish()
		if set != nil {
			set.embedded = Embedded{s.file, s.text}
		}
		return set, warnings, err
	}

	patterns := make([]string, len(s.Patterns))
	for i, pattern := range s.Patterns {
		if patterns[i] = pattern; !filepath.IsAbs(pattern) {
			patterns[i] = filepath.Join(folder, pattern)
		}
	}

	return l.load(patterns)
}
