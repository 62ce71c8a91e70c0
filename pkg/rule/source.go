package rule

import (
	"path/filepath"

	"weir/internal/yamlfile"
)

// A Source is where a configuration says the rules are: a path, a glob, a list of them, or the rules themselves:
//
//	rules: rules.yaml
//	rules: [base.yaml, rules.d/*.yaml]
//	rules: [{name: per-ip, key: ip, limits: [10/min]}]
//	rules: {rules: [...], allow: [...]}
type Source struct {
	Patterns []string

	inline *fileSpec
	file   string
}

// FromYAML reads any of its forms.
func (s *Source) FromYAML(v yamlfile.Value) {
	*s = Source{file: v.Place().File}
	elements, isList := v.List()
	_, isMap := v.Map()
	switch {
	case isMap:
		s.inline = &fileSpec{}
		v.Decode(s.inline)
	case isList && anyIsMap(elements):
		s.inline = &fileSpec{}
		v.Decode(&s.inline.Rules)
	case isList:
		v.Decode(&s.Patterns)
	default:
		s.Patterns = []string{v.Text()}
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
	if s.inline != nil {
		l := newLoader()
		l.add(s.file, *s.inline)
		return l.finish()
	}
	patterns := make([]string, len(s.Patterns))
	for i, pattern := range s.Patterns {
		if patterns[i] = pattern; !filepath.IsAbs(pattern) {
			patterns[i] = filepath.Join(folder, pattern)
		}
	}
	return Load(patterns...)
}
