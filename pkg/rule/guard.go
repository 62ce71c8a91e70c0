package rule

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"weir/internal/yamlfile"
)

// A Guard bounds how many new blocks of a rule are enforced. The zero Guard bounds nothing.
type Guard struct {
	MostNew int64 // blocks that begin within one minute; 0 bounds none
	// MostShare is how many keys may be newly blocked within one minute, in percent of those that sent something in it. Of a
	// group rule it is how many of the requests of the last hour a network may have sent that is blocked. 0 bounds none.
	MostShare float64
}

// LeastShared is how many keys may be newly blocked in a minute whatever MostShare says: a share of a few keys says nothing.
const LeastShared = 20

// Off reports whether the Guard bounds nothing.
func (g Guard) Off() bool { return g.MostNew == 0 && g.MostShare == 0 }

// String is the Guard in words, empty when it is off.
func (g Guard) String() string {
	var words []string
	if g.MostNew > 0 {
		words = append(words, fmt.Sprintf("%d new blocks/min", g.MostNew))
	}
	if g.MostShare > 0 {
		words = append(words, g.ShareText()+" of the keys of a minute")
	}
	return strings.Join(words, ", ")
}

// ShareText is MostShare as the rules write it.
func (g Guard) ShareText() string { return strconv.FormatFloat(g.MostShare, 'f', -1, 64) + "%" }

// ShareOf is how many keys may be newly blocked in a minute in each of several partitions, where so many of the
// partition's keys sent something. It is larger than the share of these keys, as Share is larger than its part.
func (g Guard) ShareOf(keys float64, partitions int) int64 {
	all := min(math.Ceil(g.MostShare/100*keys*float64(max(1, partitions))), math.MaxInt32)
	return Guard{MostNew: max(LeastShared, int64(all))}.Share(partitions)
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
	mostShareSpec float64
)

const guardRemedy = "write guard: {most_new: 500/min}, or {most_share: 2%}"

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
		v.Faultf(guardRemedy, "the guard has neither most_new nor most_share")
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

// FromYAML reads N%.
func (m *mostShareSpec) FromYAML(v yamlfile.Value) {
	text, ok := v.Scalar()
	if !ok {
		text = v.Found()
	}
	number, isPercent := strings.CutSuffix(text, "%")
	percent, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if !isPercent || err != nil || !(percent >= leastShare && percent < 100) {
		v.Faultf("write how much of a minute's keys may be newly blocked, such as 2%", "%q is no share between %v%% and 100%%", text, leastShare)
		return
	}
	*m = mostShareSpec(percent)
}

// leastShare is the smallest MostShare, in percent.
const leastShare = 0.001

func (g guardSpec) guard() Guard { return Guard{int64(g.MostNew), float64(g.MostShare)} }

// checkGuard refuses a guard of a rule that no aggregator counts.
func (r *ruleSpec) checkGuard(v yamlfile.Value) {
	switch {
	case r.Guard.guard().Off() || r.countsLog():
	case r.Block.After == 0:
		v.Key("guard").Faultf("leave it out", "an inline rule blocks no one, so it has nothing to guard")
	case r.Guard.MostShare > 0:
		v.Key("guard").Faultf(onlyNewRemedy, "aggregators see only the refused attempts of an inline rule, so they cannot tell the share of its keys")
	}
}

const onlyNewRemedy = "write most_new: 500/min instead"

// guarded gives the guard of a file to those of its rules that have none.
func (f *fileSpec) guarded() {
	for i := range f.Rules {
		if r := &f.Rules[i]; !r.Guard.given && (r.countsLog() || r.Block.After > 0) {
			r.Guard = f.Guard
			if !r.countsLog() || bool(r.On) {
				r.Guard.MostShare = 0 // see checkGuard and checkGroup
			}
		}
	}
}
