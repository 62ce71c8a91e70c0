package rule

import (
	"weir/internal/yamlfile"
	"weir/pkg/inline"
	"weir/pkg/request"
	"weir/pkg/window"
)

// CountsLog reports whether collectors and aggregators count the rule: every rule but an inline one without also: log, and
// one that counts blocks. Of a Counted set, aggregators count these too.
func (r *Rule) CountsLog() bool { return r.counted || !r.onBlocked && (!r.Inline || r.AlsoLog) }

// InlinePolicy defines how an inline decision counts the attempts of each of the rule's keys. No attempt is late, its
// cost may be any, and the block is the default one, which is never used.
func (r *Rule) InlinePolicy() (*window.Policy, error) {
	c := r.windowConfig()
	c.Remember, c.Block = r.Remember, window.Block{For: DefaultFor, Forget: DefaultForget}
	return window.New(c)
}

// InlineShare is InlinePolicy with an equal share of the limits for each of some enforcers: at least one hit.
func (r *Rule) InlineShare(enforcers int) (*window.Policy, error) {
	c := r.windowConfig()
	c.Remember, c.Block = r.Remember, window.Block{For: DefaultFor, Forget: DefaultForget}
	for i := range c.Limits {
		c.Limits[i].Hits = max(1, c.Limits[i].Hits/int64(enforcers))
	}
	if c.Burst /= int64(enforcers); r.Burst > 0 && r.Algorithm == window.Token {
		c.Burst = max(1, c.Burst) // 0 would be the limit
	}
	return window.New(c)
}

// Inline is the hits of a request that is not served yet, by the inline rules only, in the order of the rules. They are
// valid until the next call. A condition of an allow entry on the response counts as not met.
func (j *Judge) Inline(r *request.Request) []Hit {
	j.hits, j.keys = j.hits[:0], j.keys[:0]
	if len(j.set.inline) == 0 {
		return j.hits
	}

	j.subject.about(r)
	all := j.set.allowed.exemptsBefore(&j.subject, j.exempt)
	for _, i := range j.set.inline {
		reason := Allowed
		if !all && !j.exempt[i] {
			reason = j.judge(i, j.set.Rules[i])
		}
		j.note(i, reason)
	}
	return j.hits
}

// HitOf is the hit of a request under one inline rule that the application names, so match is not asked. Without a hit
// the reason is Allowed, NoKey, Failed or NoCost. The key is valid until the next call.
func (j *Judge) HitOf(rule int, r *request.Request) (Hit, Reason) {
	j.hits, j.keys = j.hits[:0], j.keys[:0]
	j.subject.about(r)
	reason := Allowed
	if !j.set.allowed.exemptsBefore(&j.subject, j.exempt) && !j.exempt[rule] {
		reason = j.count(rule, j.set.Rules[rule])
	}
	j.note(rule, reason)
	if reason != Counted {
		return Hit{}, reason
	}
	return j.hits[0], Counted
}

// An inlineSpec is whether a rule is inline, and whether collectors count it too.
type inlineSpec struct {
	On      bool
	AlsoLog bool
}

type inlineMap struct {
	Also alsoWord `yaml:"also"`
}

// An alsoWord is true if collectors count an inline rule too.
type alsoWord bool

// FromYAML reads log.
func (a *alsoWord) FromYAML(v yamlfile.Value) {
	*a = word(v, "other way of counting", []string{"log"}) == 0
}

// FromYAML reads true, false, or a map, which means true.
func (s *inlineSpec) FromYAML(v yamlfile.Value) {
	*s = inlineSpec{}
	if _, isMap := v.Map(); !isMap {
		if text, ok := v.Scalar(); !ok || v.Quoted() || text != "true" && text != "false" {
			v.Faultf("write true, false or {also: log}", "%s where true or false is expected", v.Found())
			return
		}
		v.Decode(&s.On)
		return
	}

	var long inlineMap
	v.Decode(&long)
	s.On, s.AlsoLog = true, bool(long.Also)
}

// An onErrorWord is the answer while a store fails.
type onErrorWord inline.OnError

var onErrorWords = []string{inline.Allow.String(), inline.Refuse.String(), inline.Local.String()}

// FromYAML reads allow, refuse or local.
func (o *onErrorWord) FromYAML(v yamlfile.Value) {
	*o = onErrorWord(int(inline.Allow) + max(0, word(v, "answer while the store fails", onErrorWords)))
}

// onError is the answer of an inline rule.
func (s *inlineSpec) onError(written inline.OnError) inline.OnError {
	if s.On && written == inline.Answered {
		return inline.Allow
	}
	return written
}

// checkInline finds what an inline rule cannot have, because it is decided before the request is served.
func (r *ruleSpec) checkInline(v yamlfile.Value) {
	const remedy = "leave it out, and settle the attempt afterwards"
	for _, one := range []struct {
		key  string
		spec *expressionSpec
	}{{"match", &r.Match.expressionSpec}, {"cost", &r.Cost.expressionSpec}} {
		if place := v.Key(one.key); one.spec.compiled != nil && !place.Faulty() {
			if name := readOfResponse(one.spec.compiled.tree); name != "" {
				place.Faultf(remedy, "the %s of an inline rule reads %s, which is not known before the response", one.key, name)
			}
		}
	}

	if r.Key.has("status") {
		v.Key("key").Faultf("leave it out", "the key of an inline rule has the status, which is not known before the response")
	}
	if r.Count == Served {
		v.Key("count").Faultf("leave it out", "count: served means nothing for an inline rule: requests that it refuses never count")
	}
	if !r.Inline.AlsoLog && v.Has("block") && !v.Key("block").Has("after") {
		v.Key("block").Faultf("leave it out, write after and within for a block after several refusals, or inline: {also: log} for a block by the log",
			"an inline rule has no block: it refuses only the requests over the limit")
	}
}
