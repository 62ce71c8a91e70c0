package rule

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"weir/internal/duration"
	"weir/internal/yamlfile"
	"weir/pkg/window"
)

var goodName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

func (r *ruleSpec) checkName(v yamlfile.Value) {
	const maxBytes = 64
	place := v.Key("name")
	switch {
	case !v.Given("name"):
		v.Faultf("write name: and a word, such as per-ip", "the rule has no name")
	case place.Faulty():
	case !goodName.MatchString(r.Name) || len(r.Name) > maxBytes:
		place.Faultf("use letters, digits and . _ - only, at most 64, beginning with a letter or digit", "%q is no name for a rule", r.Name)
	case r.Name == "manual":
		place.Faultf("choose another", "the name manual is reserved for manual entries")
	}
}

// checkLimits finds limits that the algorithm cannot count, and those without effect.
func (r *ruleSpec) checkLimits(v yamlfile.Value) {
	if len(r.Limits) == 0 {
		return
	}
	rule := r.rule()

	// The block has checks of its own, with places of its own.
	rule.Block = Block{For: DefaultFor}
	if rule.Algorithm != window.Sliding {
		rule.Distinct = Key{} // that they do not go together is reported elsewhere
	}
	if _, err := rule.Policy(0, 0); err != nil {
		v.Key("limits").Faultf("", "%s", strings.ReplaceAll(err.Error(), "\n", ", "))
	}

	places, _ := v.Key("limits").List()
	for i := range r.Limits {
		if why := unreachable(rule.Algorithm, r.Limits, i); why != "" {
			places[i].Warnf("leave it out", "%s", why)
		}
	}

	if !rule.HasValues() {
		r.checkRemember(v, places)
	}
}

const notExact = "%s is above the %d hits of a key that are remembered: it is broken up to 1/64 of its window late"

// checkRemember finds limits that are not counted exactly, and names the value of remember that they need.
func (r *ruleSpec) checkRemember(v yamlfile.Value, places []yamlfile.Value) {
	if r.Algorithm.Name != window.Sliding {
		if v.Has("remember") {
			v.Key("remember").Faultf("leave it out", "only sliding remembers hits, %s does not", r.Algorithm.Name)
		}
		return
	}

	for i, limit := range r.Limits {
		switch {
		case limit.AtOnce: // always exact
		case limit.Hits <= r.remembered():
		case r.Remember.Exact && limit.Hits > window.MostRemember:
			v.Key("remember").Faultf("leave it out", "%s is not exact: at most %d hits of a key can be remembered", limit, window.MostRemember)
		case limit.Hits <= window.MostRemember:
			places[i].Warnf(fmt.Sprintf("for an exact one write remember: exact (a key takes up to %d KB then), or algorithm: token", limit.Hits*window.BytesOfHit(limit.Hits)/1000+1),
				notExact, limit, r.remembered())
		default:
			places[i].Warnf(fmt.Sprintf("more than %d cannot be: write algorithm: token", window.MostRemember), notExact, limit, r.remembered())
		}
	}
}

// remembered is how many hits of a key are remembered.
func (r *ruleSpec) remembered() int64 {
	remembered := int64(window.DefaultRemember)
	if r.Remember.Hits > 0 {
		remembered = r.Remember.Hits
	}
	for _, limit := range r.Limits {
		if r.Remember.Exact && !limit.AtOnce && limit.Hits <= window.MostRemember {
			remembered = max(remembered, limit.Hits)
		}
	}
	return remembered
}

func (r *ruleSpec) checkBlock(v yamlfile.Value) {
	block := v.Key("block")
	// It comes first, because it may set the duration that the checks below compare.
	if r.Block.Until {
		r.checkUntil(v, block)
	}

	first := time.Duration(r.Block.For)
	r.checkShort(v)
	if first == 0 {
		block.Key("for").Faultf("write how long, such as 10m, or mode: shadow for none at all", "a block of 0s blocks nothing")
	}

	for i, then := range r.Block.Then {
		places, _ := block.Key("then").List()
		switch {
		case then == 0:
			places[i].Faultf("write how long, such as 1h", "a block of 0s blocks nothing")
		case time.Duration(then) < first:
			places[i].Warnf("", "offence %d is blocked for %v, shorter than the one before it", i+2, then)
		}

		// Each is compared with the one before.
		first = time.Duration(then)
	}

	if len(r.Block.Then) > 0 && r.Block.Forget == 0 {
		block.Key("forget").Warnf("write how long, such as 24h", "forget: 0s makes every offence the first, so then never applies")
	}
	if r.Block.Covers == CoversMatch && !v.Key("match").Faulty() {
		r.checkCovers(v, block.Key("covers"))
	}
}

// checkUntil finds settings that exclude until: clear. With it a block has no minimum duration, unless one is given.
func (r *ruleSpec) checkUntil(v, block yamlfile.Value) {
	switch {
	case r.Block.After > 0:
		block.Key("until").Faultf("leave until out, and write for", "until: clear and after do not go together")
	case r.Algorithm.Name != window.Sliding && !v.Key("algorithm").Faulty():
		block.Key("until").Faultf("leave until out, or write algorithm: sliding", "until: clear needs the times of hits, which %s does not remember", r.Algorithm.Name)
	case r.Block.Extend:
		block.Key("extend").Faultf("leave one of them out", "until: clear and extend: true do not go together")
	case !block.Has("for"):
		r.Block.For = duration.OrForever(time.Millisecond)
	}
}

// muchShorter is the ratio of window to block above which checkShort warns.
const muchShorter = 24

// checkShort finds windows that are much longer than the blocks: a client that comes back starts at zero.
func (r *ruleSpec) checkShort(v yamlfile.Value) {
	lasts := time.Duration(r.Block.For)
	if len(r.Block.Then) > 0 {
		lasts = max(lasts, time.Duration(r.Block.Then[0]))
	}

	// Here nothing begins at zero after a block, or the block itself is wrong, which is reported elsewhere.
	if r.Inline.On && !r.Inline.AlsoLog {
		return // the limits are those of attempts
	}
	if bool(r.Block.Until) || r.Block.Extend || lasts == 0 || v.Key("limits").Faulty() {
		return
	}

	places, _ := v.Key("limits").List()
	remedy := "write block: {until: clear}, or a longer block"
	if v.Has("share") || v.Has("distinct") {
		remedy = "write a longer block"
	}
	if v.Has("share") {
		places = []yamlfile.Value{v.Key("share").Key("within")}
	}
	for i := range places[:min(len(places), len(r.Limits))] {
		if limit := r.Limits[i]; limit.Per/muchShorter > lasts {
			places[i].Warnf(remedy,
				"the block of %v is much shorter than the window of %s, and after a block counting begins at zero, so a client gets more than that",
				duration.OrForever(lasts), limit)
		}
	}
}

func (r *ruleSpec) checkCovers(v, place yamlfile.Value) {
	if !v.Has("match") {
		place.Warnf("leave covers out, or write a match", "covers: match covers all, because the rule has no match")
		return
	}
	if _, everything := beforehand(r.Match.compiled); everything {
		place.Warnf("", "covers: match covers all, because match has no condition that is known before the response")
	}
}
