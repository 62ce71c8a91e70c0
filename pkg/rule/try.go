package rule

import (
	"slices"
	"strings"

	"weir/internal/yamlfile"
	"weir/pkg/window"
)

// Under is the rule with another algorithm: its own burst and sub-windows mean nothing to that one, which gets defaults.
func (r *Rule) Under(algorithm window.Algorithm) *Rule {
	if algorithm == r.Algorithm {
		return r
	}
	other := *r
	other.Algorithm, other.Burst, other.Subwindows = algorithm, 0, DefaultSubwindows
	return &other
}

// TryPlace is the place of try in the rules, a fault without a text.
func (r *Rule) TryPlace() yamlfile.Fault { return r.tryPlace }

// A trySpec is the algorithms that judge the attempts of an inline rule too, off the request path.
type trySpec []window.Algorithm

// FromYAML reads a list of algorithms.
func (t *trySpec) FromYAML(v yamlfile.Value) {
	if text, ok := v.Scalar(); ok {
		v.Faultf("write ["+text+"]", "try is a list")
		return
	}
	var names []algorithmName
	v.Decode(&names)
	places, _ := v.List()
	switch {
	case v.Faulty() || slices.ContainsFunc(places, yamlfile.Value.Faulty):
		return
	case len(names) == 0:
		v.Faultf("write algorithms, such as [sliding, token], or leave it out", "try is empty")
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			places[i].Faultf("name it once", "%s is tried twice", window.Algorithm(name))
		}
		*t = append(*t, window.Algorithm(name))
	}
}

// checkTry finds what cannot be tried.
func (r *ruleSpec) checkTry(v yamlfile.Value) {
	place := v.Key("try")
	if !v.Has("try") || place.Faulty() {
		return
	}
	if !r.Inline.On {
		place.Faultf("write inline: true, or leave it out", "try judges attempts, and only rules that are decided inline have these")
		return
	}
	if v.Key("limits").Faulty() || v.Key("algorithm").Faulty() || len(r.Limits) == 0 {
		return
	}
	if _, err := r.rule().InlinePolicy(); err != nil {
		return // its own limits are wrong, which is reported elsewhere
	}
	places, _ := place.List()
	for i, algorithm := range r.Try {
		if _, err := r.rule().Under(algorithm).InlinePolicy(); err != nil && i < len(places) {
			places[i].Faultf("leave it out", "%s cannot count these limits: %s", algorithm, strings.ReplaceAll(err.Error(), "\n", ", "))
		}
	}
}
