package rule

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"weir/internal/duration"
	"weir/internal/nearest"
	"weir/internal/yamlfile"
	"weir/pkg/window"
)

type limitsSpec []Limit

// FromYAML reads a list of limits.
func (l *limitsSpec) FromYAML(v yamlfile.Value) {
	if text, ok := v.Scalar(); ok {
		if _, err := ParseLimit(text); err == nil {
			v.Faultf("write ["+text+"]", "limits is a list")
			return
		}
	}
	var limits []Limit
	if v.Decode(&limits); len(limits) == 0 && !v.Faulty() {
		v.Faultf("write how many are allowed, such as [10/min]", "limits is empty")
	}
	*l = limits
}

// An untilWord is true if a block lasts until the window is clear.
type untilWord bool

// FromYAML reads clear.
func (u *untilWord) FromYAML(v yamlfile.Value) {
	*u = word(v, "end of a block", []string{"clear"}) == 0
}

// A rememberSpec is how many hits of a key are remembered.
type rememberSpec struct {
	Exact bool
	Hits  int64
}

// FromYAML reads exact, or a number of hits.
func (r *rememberSpec) FromYAML(v yamlfile.Value) {
	text, _ := v.Scalar()
	if text == "exact" {
		r.Exact = true
		return
	}
	hits, err := strconv.ParseInt(text, 10, 64)
	if err != nil || hits < window.LeastRemember || hits > window.MostRemember {
		v.Faultf(fmt.Sprintf("write exact, or a number of hits: %d to %d", window.LeastRemember, window.MostRemember), "%q is no number of hits to remember", text)
		return
	}
	r.Hits = hits
}

// An evidenceSpec is how many requests are kept with an entry.
type evidenceSpec int

// FromYAML reads a number of requests.
func (e *evidenceSpec) FromYAML(v yamlfile.Value) {
	text, _ := v.Scalar()
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > MaxEvidence {
		v.Faultf(fmt.Sprintf("write a number from 0 to %d", MaxEvidence), "%q is no number of requests to keep with an entry", text)
		return
	}
	*e = evidenceSpec(n)
}

type thenSpec []duration.OrForever

// FromYAML reads a duration or a list of them.
func (t *thenSpec) FromYAML(v yamlfile.Value) {
	if _, ok := v.Scalar(); ok {
		*t = make(thenSpec, 1)
		v.Faultf("write [1h, 24h]: how long the second offence lasts, the third and so on", "then is a list")
		return
	}
	v.Decode((*[]duration.OrForever)(t))
}

// An expressionSpec is an expression as written, and compiled.
type expressionSpec struct {
	written  string
	compiled *expression
}

func (e *expressionSpec) read(v yamlfile.Value, text string, wanted reflect.Kind) {
	if strings.TrimSpace(text) == "" {
		v.Faultf("write an expression, or leave the key out", "the expression is empty")
		return
	}
	compiled, complaints := compile(text, wanted)
	for _, c := range complaints {
		if c.remedy == "" && v.Comment() != "" && !v.Quoted() {
			c.remedy = "YAML takes what stands behind # for a comment: put the expression in single quotes"
		}
		v.At(c.line, c.column).Faultf(c.remedy, "%s", c.what)
	}
	e.written, e.compiled = strings.TrimSpace(text), compiled
}

type matchSpec struct{ expressionSpec }

// FromYAML reads a condition.
func (m *matchSpec) FromYAML(v yamlfile.Value) {
	if text := v.Text(); !v.Faulty() {
		m.read(v, text, reflect.Bool)
	}
}

type costSpec struct{ expressionSpec }

// FromYAML reads a number or an expression.
func (c *costSpec) FromYAML(v yamlfile.Value) {
	text, ok := v.Scalar()
	if !ok {
		v.Faultf("write a number, or an expression such as 'bytes / 1024'", "%s where a cost is expected", v.Found())
		return
	}

	c.read(v, text, reflect.Float64)

	// Only a constant can be checked here; the cost of an expression is checked for each request.
	number, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	switch {
	case err != nil:
	case number < 1:
		v.Faultf("write at least 1, or leave cost out", "a cost of %s counts nothing", text)
	case number > MaxCost:
		v.Faultf("write at most 1000000000", "a cost of %s is too high", text)
	}
}

type algorithmSpec struct {
	Name       window.Algorithm
	Subwindows int
	Burst      int64
}

type algorithmMap struct {
	Name       algorithmName `yaml:"name"`
	Subwindows int           `yaml:"subwindows"`
	Burst      int64         `yaml:"burst"`
}

// FromYAML reads an algorithm's name, or a map of its name and its own keys.
func (a *algorithmSpec) FromYAML(v yamlfile.Value) {
	if _, ok := v.Map(); !ok {
		var name algorithmName
		name.FromYAML(v)
		a.Name = window.Algorithm(name)

		a.Subwindows = DefaultSubwindows
		return
	}

	long := algorithmMap{Subwindows: DefaultSubwindows}
	v.Decode(&long)
	a.Name, a.Subwindows, a.Burst = window.Algorithm(long.Name), long.Subwindows, long.Burst
	if !v.Has("name") {
		v.Faultf("write {name: counter, …}", "the algorithm has no name")
		return
	}

	if !v.Key("name").Faulty() {
		a.check(v)
	}
}

func (a *algorithmSpec) check(v yamlfile.Value) {
	if v.Has("subwindows") {
		switch place := v.Key("subwindows"); {
		case a.Name != window.Counter:
			place.Faultf("leave it out", "only counter has subwindows, %s has none", a.Name)
		case (a.Subwindows < 1 || a.Subwindows > 1000) && !place.Faulty():
			place.Faultf("write 1 to 1000", "a window of %d parts is not possible", a.Subwindows)
		}
	}

	if v.Has("burst") {
		switch place := v.Key("burst"); {
		case a.Name != window.Token && a.Name != window.Uniform:
			place.Faultf("leave it out", "only token and uniform have a burst, %s has none", a.Name)
		case a.Burst < 1 && !place.Faulty():
			place.Faultf("write at least 1, or leave it out", "a burst of %d is not possible", a.Burst)
		}
	}
}

type algorithmName window.Algorithm

// FromYAML reads an algorithm's name.
func (a *algorithmName) FromYAML(v yamlfile.Value) {
	var names []string
	for _, algorithm := range window.Algorithms() {
		names = append(names, algorithm.String())
	}
	if at := word(v, "algorithm", names); at >= 0 {
		*a = algorithmName(window.Algorithms()[at])
	}
}

// word reads one of a few words and returns its index; -1 after an error.
func word(v yamlfile.Value, what string, words []string) int {
	text, ok := v.Scalar()
	if !ok {
		v.Faultf("write "+strings.Join(words, ", "), "%s where one word is expected", v.Found())
		return -1
	}
	at := slices.Index(words, text)
	if at < 0 {
		v.Faultf(nearest.Suggest(text, words, "write "), "%q is no %s", text, what)
	}
	return at
}

// FromYAML reads enforce or shadow.
func (m *Mode) FromYAML(v yamlfile.Value) { *m = Mode(max(0, word(v, "mode", modeWords))) }

// FromYAML reads all or served.
func (c *Count) FromYAML(v yamlfile.Value) { *c = Count(max(0, word(v, "count", countWords))) }

// FromYAML reads all or match.
func (c *Covers) FromYAML(v yamlfile.Value) { *c = Covers(max(0, word(v, "cover", coversWords))) }
