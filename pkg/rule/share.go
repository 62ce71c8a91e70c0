package rule

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"weir/internal/duration"
	"weir/internal/yamlfile"
	"weir/pkg/window"
)

// A Share is the share of a key's requests that may meet a condition. The rule has one limit: of at least so many requests,
// within so long.
type Share struct {
	Of   string        // the condition, as written
	Over float64       // percent
	Late time.Duration // how late a request may be and count; below 0 as late as for all rules

	of *expression
}

// The bounds of a Share.
const (
	leastOver    = 0.01 // percent
	mostOver     = 99.99
	mostLeast    = 1_000_000 // requests
	mostLateness = 1830 * 24 * time.Hour
)

// CountsShare reports whether the rule limits the share of requests that meet a condition.
func (r *Rule) CountsShare() bool { return r.Share != nil }

// condition is that of the share; nil without one.
func (r *Rule) condition() *expression {
	if r.Share == nil {
		return nil
	}
	return r.Share.of
}

// HasValues reports whether the rule's hits have values: it counts different ones, or whether they are 1.
func (r *Rule) HasValues() bool { return r.CountsDistinct() || r.CountsShare() }

// valuesOf is that of the rule's hits.
func (s *Share) valuesOf() uint64 {
	sum := sha256.Sum256([]byte("share\x00" + s.of.canonical()))
	return max(1, binary.LittleEndian.Uint64(sum[:]))
}

// value is 1 if the subject meets the condition, else 0; ok is false if that cannot be computed.
func (s *Share) value(of *subject) (value uint64, ok bool) {
	meets, ok := s.of.matches(of)
	if meets {
		return 1, ok
	}
	return 0, ok
}

// window is how the share is counted.
func (s *Share) window() *window.Share {
	if s == nil {
		return nil
	}
	return &window.Share{Of: s.valuesOf(), Over: s.millionths()}
}

func (s *Share) millionths() int64 { return int64(math.Round(s.Over * 10_000)) }

// late is how late a hit may be where it may be so late for all rules.
func (s *Share) late(all time.Duration) time.Duration {
	if s == nil || s.Late < 0 {
		return all
	}
	return min(all, s.Late)
}

// limitText is the limit in words: 50% of at least 20 requests within 10 minutes.
func (s *Share) limitText(l Limit) string {
	requests := "requests"
	if l.Hits == 1 {
		requests = "request"
	}
	return fmt.Sprintf("%s%% of at least %d %s within %s", strconv.FormatFloat(s.Over, 'f', -1, 64), l.Hits, requests, spanText(l.Per))
}

// A shareSpec is a share as written.
type shareSpec struct {
	Of     matchSpec         `yaml:"of"`
	Over   overSpec          `yaml:"over"`
	Least  int64             `yaml:"least"`
	Within duration.Duration `yaml:"within"`
	Late   duration.Duration `yaml:"late"`

	given bool
}

const shareRemedy = "write share: {of: 'status in 400..498', over: 50%, least: 20, within: 10m}"

// FromYAML reads a map.
func (s *shareSpec) FromYAML(v yamlfile.Value) {
	type plain shareSpec // without methods, or Decode would call FromYAML again
	*s = shareSpec{Late: -1}
	v.Decode((*plain)(s))
	if _, isMap := v.Map(); !isMap {
		return
	}
	for _, key := range []string{"of", "over", "least", "within"} {
		if !v.Given(key) {
			v.Faultf(shareRemedy, "the share has no %s", key)
			return
		}
	}

	fault := func(bad bool, key, remedy, format string, args ...any) {
		if place := v.Key(key); bad && !place.Faulty() {
			place.Faultf(remedy, format, args...)
		}
	}
	within, late := time.Duration(s.Within), time.Duration(s.Late)
	fault(s.Least < 1 || s.Least > mostLeast, "least", fmt.Sprintf("write 1 to %d", mostLeast), "a share of at least %d requests is not possible", s.Least)
	fault(within < time.Millisecond || within > maxPer, "within", "write how long, such as 10m", "a share within %s is not possible", s.Within)
	fault(late > mostLateness, "late", "write at most 1830d", "%s is too late", s.Late)
	s.given = !v.Faulty() && s.Of.compiled != nil && s.Over > 0
}

// An overSpec is a share in percent.
type overSpec float64

// FromYAML reads N%.
func (o *overSpec) FromYAML(v yamlfile.Value) {
	text, ok := v.Scalar()
	if !ok {
		text = v.Found()
	}
	number, isPercent := strings.CutSuffix(text, "%")
	percent, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if !isPercent || err != nil || !(percent >= leastOver && percent <= mostOver) {
		v.Faultf("write how much of the requests may meet the condition, such as 50%", "%q is no share between %v%% and %v%%", text, leastOver, mostOver)
		return
	}
	*o = overSpec(math.Round(percent*10_000) / 10_000)
}

// share is the share, nil without one.
func (s *shareSpec) share() *Share {
	if !s.given {
		return nil
	}
	return &Share{Of: s.Of.written, Over: float64(s.Over), Late: time.Duration(s.Late), of: s.Of.compiled}
}

// limit is the limit of the share.
func (s *shareSpec) limit() Limit {
	l := Limit{Limit: window.Limit{Hits: s.Least, Per: time.Duration(s.Within)}}
	l.Text = s.share().limitText(l)
	return l
}

// checkShare finds what does not go together with a share, and takes the limit from it.
func (r *ruleSpec) checkShare(v yamlfile.Value) {
	if !v.Has("share") {
		return
	}
	refuse := func(key, remedy, what string) {
		if place := v.Key(key); v.Has(key) && !place.Faulty() {
			place.Faultf(cmp.Or(remedy, "leave it out"), "%s", what)
		}
	}
	refuse("limits", "", "a rule with a share has no other limits: least and within stand in the share")
	refuse("distinct", "leave one of them out", "distinct and share do not go together")
	refuse("remember", "", "remember is for limits of hits: as many requests are remembered as the share needs")
	refuse("cost", "", "a request counts once in a share, whatever it costs")
	if r.Inline.On {
		refuse("share", "leave it out, or leave inline out", "an inline rule decides before the response, and no share is known then")
	}
	if r.Algorithm.Name != window.Sliding {
		refuse("algorithm", "", fmt.Sprintf("a share is counted exactly, by the times of the requests, and not by %s", r.Algorithm.Name))
	}
	if block := v.Key("block"); v.Has("block") && !block.Faulty() {
		if r.Block.Extend {
			block.Key("extend").Faultf("leave it out", "extend: true and share do not go together: requests inside a block do not count")
		}
		if r.Block.Until {
			block.Key("until").Faultf("leave until out, and write for", "until: clear and share do not go together")
		}
	}
	if r.Share.given {
		r.Limits = limitsSpec{r.Share.limit()}
	}
}
