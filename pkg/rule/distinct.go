package rule

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"slices"
	"strings"
	"time"

	"weir/internal/yamlfile"
	"weir/pkg/window"
)

// Rules with distinct count how many different values the requests of a key have, and not how many requests there are. A
// value travels as 64 bits of a hash of the hit's key and the value's form in keys: an HMAC-SHA256 by the key in secret_file
// where there is one, else a SHA-256. So it is the same at every collector and after every restart. Without the file, who
// computes some billions of hashes finds two values that are one under a key. They serve no one else, and let through.

// CountsDistinct reports whether the rule counts different values of Distinct.
func (r *Rule) CountsDistinct() bool { return len(r.Distinct.parts) > 0 }

// EstimatesValues reports whether the number of different values is an estimate: above the limits that are exact.
func (r *Rule) EstimatesValues() bool {
	return r.CountsDistinct() && !r.onBlocked && slices.ContainsFunc(r.Limits, func(l Limit) bool { return l.Hits > window.MostDistinct })
}

// HidesValues reports whether no client knows the numbers of its values: they are hashes with the key in secret_file.
func (r *Rule) HidesValues() bool { return r.valuesBy != nil && r.valuesBy.key != nil }

// ValuesOf says what the values of each rule's hits are of, as a number: of other fields, or hashed with another key, or
// where hits are 1 that meet another condition, it is another one. It is 0 of rules that count hits. Without a rule whose
// hits have values it is nil.
func (s *Set) ValuesOf() (of []uint64) {
	if !slices.ContainsFunc(s.Rules, (*Rule).HasValues) {
		return nil
	}
	for _, r := range s.Rules {
		of = append(of, r.ValuesOf())
	}
	return of
}

// ValuesOf is that of the rule.
func (r *Rule) ValuesOf() uint64 {
	if r.CountsShare() {
		return r.Share.valuesOf()
	}
	return r.distinctOf()
}

func (r *Rule) distinctOf() uint64 {
	if !r.CountsDistinct() {
		return 0
	}
	of := r.Distinct.String() + "\x00" + r.valuesBy.sum()
	if r.CountsBlocks() {
		of = "blocked\x00" + r.Distinct.String()
		if r.Above != "" {
			of += "\x00" + r.Above
		}
	}
	sum := sha256.Sum256([]byte(of))
	return max(1, binary.LittleEndian.Uint64(sum[:]))
}

// A valuer makes the numbers of values. One goroutine uses it.
type valuer struct {
	of   *secret
	mac  hash.Hash
	text []byte
	sum  [sha256.Size]byte
}

// value is the number of a request's value of the rule's fields, in a hit of a key; ok is false if it lacks one of them.
func (s *subject) value(r *Rule, key []byte) (value uint64, ok bool) {
	v := &s.valuer
	v.text = append(v.text[:0], "value\x00"...) // no hash of a secret in a key is of such a text
	v.text = append(v.text, key...)
	v.text = append(v.text, 0)
	if v.text, ok = r.Distinct.append(v.text, s); !ok {
		return 0, false
	}
	by := r.valuesBy
	if by == nil {
		sum := sha256.Sum256(v.text)
		return binary.LittleEndian.Uint64(sum[:]), true
	}
	if by.key == nil {
		return 0, false
	}
	if v.of != by {
		v.of, v.mac = by, hmac.New(sha256.New, by.key)
	}
	v.mac.Reset()
	v.mac.Write(v.text)
	return binary.LittleEndian.Uint64(v.mac.Sum(v.sum[:0])), true
}

// distinctWords are the fields' values in words, one and several.
var distinctWords = map[string][2]string{
	"ip": {"address", "addresses"}, "user": {"user", "users"}, "host": {"host", "hosts"}, "path": {"path", "paths"}, "raw_path": {"path", "paths"},
	"method": {"method", "methods"}, "query": {"query", "queries"}, "status": {"status", "statuses"}, "agent": {"agent", "agents"}, "referrer": {"referrer", "referrers"},
}

// longestNames is up to how many bytes the fields are named in the text of a limit.
const longestNames = 80

// limitText is a limit of different values in words: 200 different paths within an hour.
func (k Key) limitText(l Limit) string {
	words, known := distinctWords[k.parts[0].name]
	switch {
	case len(k.parts) > 1 || !known:
		names := make([]string, len(k.parts))
		for i := range k.parts {
			names[i] = k.parts[i].name
		}
		words = [2]string{"value", "values"}
		if of := " of " + strings.Join(names, " and "); len(of) <= longestNames {
			words = [2]string{"value" + of, "values" + of}
		}
	case k.parts[0].name == "ip" && k.Words()[0] != "ip":
		words = [2]string{"network", "networks"}
	}
	what := words[1]
	if l.Hits == 1 {
		what = words[0]
	}
	return fmt.Sprintf("%d different %s within %s", l.Hits, what, spanText(l.Per))
}

// JoinTexts joins the texts of limits: with commas where they are in words.
func JoinTexts(limits []string) string {
	if slices.ContainsFunc(limits, func(text string) bool { return strings.Contains(text, " within ") }) {
		return strings.Join(limits, ", ")
	}
	return strings.Join(limits, " ")
}

var spanWords = []struct {
	span      time.Duration
	one, many string
}{{7 * 24 * time.Hour, "a week", "weeks"}, {24 * time.Hour, "a day", "days"}, {time.Hour, "an hour", "hours"}, {time.Minute, "a minute", "minutes"},
	{time.Second, "a second", "seconds"}, {time.Millisecond, "a millisecond", "milliseconds"}}

// spanText is the time of a limit in words.
func spanText(d time.Duration) string {
	for _, of := range spanWords {
		switch {
		case d == of.span:
			return of.one
		case d%of.span == 0:
			return fmt.Sprintf("%d %s", d/of.span, of.many)
		}
	}
	return d.String()
}

// Phrased are limits with the texts that they have in the rule: in words, if it counts different values or a share.
func (r *Rule) Phrased(limits []Limit) []Limit {
	if !r.CountsShare() {
		return r.Distinct.phrased(limits, r.onBlocked)
	}
	limits = slices.Clone(limits)
	for i := range limits {
		limits[i].Text = r.Share.limitText(limits[i])
	}
	return limits
}

func (k Key) phrased(limits []Limit, blocked bool) []Limit {
	if len(k.parts) == 0 {
		return limits
	}
	limits = slices.Clone(limits)
	for i := range limits {
		if limits[i].Text = k.limitText(limits[i]); blocked {
			limits[i].Text = groupText(limits[i])
		}
	}
	return limits
}

// A distinctSpec is the fields whose different values are counted.
type distinctSpec struct{ Key }

// FromYAML reads one word or a list of them.
func (d *distinctSpec) FromYAML(v yamlfile.Value) {
	if len(v.OneOrMore()) == 0 {
		v.Faultf("write the field whose different values count, such as path", "distinct is empty")
		return
	}
	d.Key.FromYAML(v)
}

// checkDistinct finds what does not go together with counting different values, and reports whether the limits can be.
func (r *ruleSpec) checkDistinct(v yamlfile.Value) bool {
	if !v.Has("distinct") || v.Key("distinct").Faulty() {
		return true
	}

	refuse := func(key, remedy, what string) {
		if place := v.Key(key); v.Has(key) && !place.Faulty() {
			place.Faultf(remedy, "%s", what)
		}
	}
	if r.Inline.On {
		refuse("distinct", "leave it out, or leave inline out", "an inline rule counts attempts, and cannot count different values")
	}
	if r.Algorithm.Name != window.Sliding {
		refuse("algorithm", "leave it out", fmt.Sprintf("different values are counted exactly, by the times of their last requests, and not by %s", r.Algorithm.Name))
	}
	refuse("remember", "leave it out", "remember is for hits: as many different values are remembered as the limits need")
	refuse("cost", "leave it out", "a value counts once, whatever its requests cost")
	if block := v.Key("block"); v.Has("block") && !block.Faulty() {
		if r.Block.Extend {
			block.Key("extend").Faultf("leave it out", "extend: true and distinct do not go together: requests inside a block do not count")
		}
		if r.Block.Until {
			block.Key("until").Faultf("leave until out, and write for", "until: clear and distinct do not go together")
		}
	}

	for _, p := range r.Distinct.parts {
		if slices.ContainsFunc(r.Key.parts, p.hasOneValue) && !bool(r.On) && !v.Key("key").Faulty() {
			v.Key("distinct").Faultf("leave it out of one of them", "%s is in the key, so the requests of a key have one %s", p.name, p.name)
		}
	}
	return r.checkMany(v)
}

// hasOneValue reports whether all requests that have the same value of another part have the same of this one. Addresses of a
// network may differ.
func (p part) hasOneValue(of part) bool {
	return p.name == of.name && (p.name != "ip" || of.bits4 >= p.bits4 && of.bits6 >= p.bits6)
}

// checkMany finds limits of more different values than can be counted, and reports whether there are none.
func (r *ruleSpec) checkMany(v yamlfile.Value) bool {
	fits := true
	places, _ := v.Key("limits").List()
	for i, limit := range r.Limits {
		if limit.Hits <= window.MostDistinct || limit.AtOnce || i >= len(places) {
			continue
		}
		fits = false
		switch {
		case bool(r.On):
			places[i].Faultf(fmt.Sprintf("write at most %d", window.MostDistinct), "%s is too many: the blocked addresses of a network are remembered one by one, %d at most", limit, window.MostDistinct)
		case limit.Hits > window.MostEstimated:
			places[i].Faultf(fmt.Sprintf("write at most %d", window.MostEstimated), "%s is too many: different values are counted up to %d, and estimated up to %d", limit, window.MostDistinct, window.MostEstimated)
		case len(r.Limits) > 1:
			places[i].Faultf("write a rule of its own for it", "%s is above %d different values, so it is an estimate, and such a rule has one limit", limit, window.MostDistinct)
		default:
			fits = true
		}
	}
	return fits
}

// checkLate finds late where nothing waits for late requests.
func (r *ruleSpec) checkLate(v yamlfile.Value) {
	place := v.Key("late")
	if !v.Has("late") || place.Faulty() {
		return
	}
	r.givenLate = true
	estimates := v.Has("distinct") && !bool(r.On) && slices.ContainsFunc(r.Limits, func(l Limit) bool { return l.Hits > window.MostDistinct })
	switch {
	case v.Has("share"):
		place.Faultf("write it in the share", "the late of a share stands in the share")
	case !estimates && !v.Key("limits").Faulty() && !v.Key("distinct").Faulty():
		place.Faultf("leave it out", "late is for limits of more than %d different values, which wait for late requests", window.MostDistinct)
	case time.Duration(r.Late) > mostLateness:
		place.Faultf("write at most 1830d", "%s is too late", r.Late)
	}
}
