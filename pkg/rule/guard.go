package rule

import (
	"math"
	"time"

	"weir/internal/yamlfile"
)

// A Guard bounds how many new blocks of a rule are enforced. The zero Guard bounds nothing.
type Guard struct {
	MostNew int64 // blocks that begin within one minute
}

// Share is how many of them each of several partitions enforces. Clients do not spread evenly over partitions, so a share is
// larger than its part, by three standard deviations of a random spread: as many blocks as written are enforced, and
// some more may be.
func (g Guard) Share(partitions int) int64 {
	if partitions <= 1 || g.MostNew == 0 {
		return g.MostNew
	}
	part := float64(g.MostNew) / float64(partitions)
	return min(int64(math.Ceil(part+3*math.Sqrt(part))), g.MostNew)
}

// A guardSpec is a guard as written, or the word off.
type guardSpec struct {
	MostNew   mostNewSpec   `yaml:"most_new"`
	MostShare mostShareSpec `yaml:"most_share"`

	given bool
}

type (
	mostNewSpec   int64
	mostShareSpec struct{}
)

const guardRemedy = "write guard: {most_new: 500/min}"

// FromYAML reads a map, or off.
func (g *guardSpec) FromYAML(v yamlfile.Value) {
	*g = guardSpec{given: true}
	if text, ok := v.Scalar(); ok {
		if text != "off" {
			v.Faultf(guardRemedy+", or off", "%q is no guard", text)
		}
		return
	}

	type plain guardSpec // without methods, or Decode would call FromYAML again
	if !v.Decode((*plain)(g)) {
		return
	}
	if !v.Given("most_new") && !v.Has("most_share") {
		v.Faultf(guardRemedy, "the guard has no most_new")
	}
}

// FromYAML reads N/min.
func (m *mostNewSpec) FromYAML(v yamlfile.Value) {
	text, ok := v.Scalar()
	if !ok {
		text = v.Found()
	}
	limit, err := ParseLimit(text)
	switch {
	case err != nil:
		v.Faultf("write how many blocks may begin within a minute, such as 500/min", "%q is no number of new blocks", text)
	case limit.Per != time.Minute:
		v.Faultf("write 500/min", "%s is not per minute: a guard counts the new blocks of each minute", text)
	}
	*m = mostNewSpec(limit.Hits)
}

// FromYAML refuses it: how many keys a rule counts is known of those in memory only, and differs after each start.
func (*mostShareSpec) FromYAML(v yamlfile.Value) {
	v.Faultf("write most_new: 500/min instead", "a share of a rule's keys is not possible: Weir does not count the keys of a rule, of which most are in the store only")
}

// checkGuard refuses a guard of a rule that no aggregator counts.
func (r *ruleSpec) checkGuard(v yamlfile.Value) {
	if r.Guard.MostNew > 0 && r.Inline.On && !r.Inline.AlsoLog && r.Block.After == 0 {
		v.Key("guard").Faultf("leave it out", "an inline rule blocks no one, so it has nothing to guard")
	}
}

// guarded gives the guard of a file to those of its rules that have none.
func (f *fileSpec) guarded() {
	for i := range f.Rules {
		if r := &f.Rules[i]; !r.Guard.given && (r.countsLog() || r.Block.After > 0) {
			r.Guard = f.Guard
		}
	}
}
