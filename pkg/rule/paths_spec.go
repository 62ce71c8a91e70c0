package rule

import (
	"weir/internal/yamlfile"
	"weir/pkg/request"
)

// A pathsSpec defines which spellings of a path are one path.
type pathsSpec struct {
	Case          lowerWord `yaml:"case"`
	TrailingSlash dropWord  `yaml:"trailing_slash"`
	Params        dropWord  `yaml:"params"`
	Backslash     slashWord `yaml:"backslash"`

	place yamlfile.Value
	given bool
}

// FromYAML reads the map.
func (p *pathsSpec) FromYAML(v yamlfile.Value) {
	type plain pathsSpec
	v.Decode((*plain)(p))
	p.place, p.given = v, true
}

func (p *pathsSpec) form() request.PathForm {
	return request.PathForm{Lower: bool(p.Case), DropSlash: bool(p.TrailingSlash), DropParams: bool(p.Params), BackslashToo: bool(p.Backslash)}
}

// Each is true for the second of its words.
type (
	lowerWord bool
	dropWord  bool
	slashWord bool
)

// usersWord is true if edges have checked the users in logs and in requests to the enforcer.
type usersWord bool

// FromYAML reads claimed or checked.
func (w *usersWord) FromYAML(v yamlfile.Value) {
	*w = word(v, "word for users", []string{"claimed", "checked"}) == 1
}

// FromYAML reads keep or lower.
func (w *lowerWord) FromYAML(v yamlfile.Value) { *w = word(v, "case", []string{"keep", "lower"}) == 1 }

// FromYAML reads keep or drop.
func (w *dropWord) FromYAML(v yamlfile.Value) { *w = word(v, "choice", []string{"keep", "drop"}) == 1 }

// FromYAML reads keep or slash.
func (w *slashWord) FromYAML(v yamlfile.Value) {
	*w = word(v, "choice", []string{"keep", "slash"}) == 1
}
